// Loads packages from the directory of `install.sh`, which is outside Node's search path.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export const requirePackage = createRequire(pathToFileURL(`${process.env.INTEROP_PACKAGES}/`));
