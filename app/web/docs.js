// The API's own document, in Swagger UI. It is too large to be kept here; docs.html names the one file it may be.

if (window.SwaggerUIBundle) {
  window.SwaggerUIBundle({ url: "./openapi.json", dom_id: "#swagger-ui", deepLinking: true });
}
