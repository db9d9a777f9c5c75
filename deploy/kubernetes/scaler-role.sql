-- The database role of keda.yaml, created by the owner of the tables; then set its password: \password runtally_scaler
CREATE ROLE runtally_scaler LOGIN;
GRANT SELECT (status, held_for) ON runs TO runtally_scaler;
