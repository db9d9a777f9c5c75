"""Earlier releases of the AG-UI client: what they post and what they understand."""
