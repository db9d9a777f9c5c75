"""What says nothing about agents or bills: database, settings, logs, time, and other technical parts."""
