"""Sign-in of programs without a browser, as the device authorization grant of OAuth (RFC 8628)."""
