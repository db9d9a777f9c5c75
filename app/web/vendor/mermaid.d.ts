export { renderMermaid } from "beautiful-mermaid";
