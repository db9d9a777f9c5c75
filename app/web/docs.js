// Shows the OpenAPI document in Swagger UI, which docs.html loads from a CDN and pins by hash.

if (window.SwaggerUIBundle) {
  window.SwaggerUIBundle({ url: "./openapi.json", dom_id: "#swagger-ui", deepLinking: true });
}
