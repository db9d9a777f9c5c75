export { default } from "dompurify";
export type * from "dompurify";
