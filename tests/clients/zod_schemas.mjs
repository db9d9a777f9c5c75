// Prints the JSON schemas that zod makes of some types, by the names of `tests/unit/platform/json_schema/generated.py`.
import { z } from "zod";

const Cat = z.object({ kind: z.literal("cat") });
const Dog = z.object({ kind: z.literal("dog") });
const Node = z.object({
  get children() {
    return z.array(Node);
  },
});
const Lists = z.array(z.lazy(() => Lists));

const TYPES = {
  "an object with a format": z.object({ a: z.email() }),
  "a tuple": z.object({ a: z.tuple([z.string(), z.number()]) }),
  "a record of an enum": z.object({ a: z.partialRecord(z.enum(["x"]), z.any()) }),
  "an object in itself": Node,
  alternatives: z.discriminatedUnion("kind", [Cat, Dog]),
  "a list": z.array(Cat),
  "a list in itself": Lists,
  "a text": z.string(),
  null: z.null(),
  "a named object": z.object({ a: Cat.meta({ id: "Cat", "x-order": 1 }) }),
};
const schemas = Object.entries(TYPES).map(([name, type]) => [`zod: ${name}`, z.toJSONSchema(type)]);
process.stdout.write(JSON.stringify(Object.fromEntries(schemas)));
