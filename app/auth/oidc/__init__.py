"""Sign-in of persons by OpenID Connect."""
