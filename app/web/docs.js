// Shows the OpenAPI document in Swagger UI.

if (window.SwaggerUIBundle) {
  window.SwaggerUIBundle({
    url: "./openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    // By default it sends the document's address to a service on the Internet.
    validatorUrl: null,
  });
}
