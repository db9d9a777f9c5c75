"""What a request passes before its route runs: key, scope, rate, size, body."""
