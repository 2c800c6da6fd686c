// The packages, from the folder that the test command installed them into: they do not stand beside
// these files, where Node would look for them.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export const installed = createRequire(pathToFileURL(`${process.env.INTEROP_PACKAGES}/`));
