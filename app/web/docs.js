// Shows the OpenAPI document in Swagger UI.

// Its style sheet has dark colours, but does not ask which are wanted.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

if (window.SwaggerUIBundle) {
  window.SwaggerUIBundle({
    url: "./openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    // By default it sends the document's address to a service on the Internet.
    validatorUrl: null,
  });
}
