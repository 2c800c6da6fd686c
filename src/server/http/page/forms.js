// Forms from JSON Schema: a field for each property, JSON for types without a field.

let lastField = 0;

/** Resolves a reference within the document `root`. */
function resolve(reference, root) {
  const steps = reference.slice(1).split("/").slice(1);
  const names = steps.map((step) => decodeURIComponent(step).replace(/~1/g, "/"));
  return names.reduce((at, name) => at?.[name.replace(/~0/g, "~")], root);
}

/** Resolves references of a schema, and removes `null` beside one other choice. */
function plain(schema, root, depth = 0) {
  if (typeof schema !== "object" || schema === null || depth > 16) return {};
  const { $ref, anyOf, oneOf, ...rest } = schema;
  if ($ref?.startsWith("#")) return { ...plain(resolve($ref, root), root, depth + 1), ...rest };
  const choices = (anyOf ?? oneOf)?.filter(({ type }) => type !== "null");
  if (choices?.length === 1 && !("const" in choices[0])) {
    return { ...plain(choices[0], root, depth + 1), ...rest };
  }
  if (!Array.isArray(schema.type)) return schema;
  const types = schema.type.filter((type) => type !== "null");
  return { ...schema, type: types.length === 1 ? types[0] : undefined };
}

/** Returns the values of an enum schema with their titles, or `undefined`. */
function listed(schema) {
  const titled = schema.oneOf ?? schema.anyOf;
  if (titled?.every((choice) => "const" in choice)) {
    return titled.map((choice) => [choice.const, choice.title ?? String(choice.const)]);
  }
  const values = "const" in schema ? [schema.const] : schema.enum;
  const name = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  return values?.map((value, at) => [value, schema.enumNames?.[at] ?? name(value)]);
}

/** Describes the allowed values of a field. */
function hint({ type, minimum, maximum, format }, isRequired) {
  const words = [];
  if (type === "integer") words.push("whole number");
  if (minimum !== undefined && maximum !== undefined) words.push(`${minimum} to ${maximum}`);
  else if (minimum !== undefined) words.push(`at least ${minimum}`);
  else if (maximum !== undefined) words.push(`at most ${maximum}`);
  if (format === "date-time") words.push("like 2026-07-28T12:00:00Z");
  if (!isRequired) words.push("optional");
  return words.join(", ");
}

/** Creates the control of one value: the element, and a function that reads it. */
function control(schema, value, required) {
  const choices = listed(schema);
  if (choices) return choiceControl(choices, value, required);
  switch (schema.type) {
    case "boolean":
      return booleanControl(value, required);
    case "integer":
    case "number":
      return numberControl(schema, value, required);
    case "string":
      return textControl(schema, value, required);
    default:
      return jsonControl(schema, value, required);
  }
}

function choiceControl(choices, value, required) {
  const titles = choices.map(([, title]) => title);
  const wanted = JSON.stringify(value);
  const chosen = choices.findIndex(([choice]) => JSON.stringify(choice) === wanted);
  if (!required || chosen < 0) titles.unshift(required ? "Choose …" : "—");
  const none = titles.length - choices.length;
  const options = titles.map((title, at) =>
    make("option", { textContent: title, value: at < none ? "" : at - none }),
  );
  const node = make("select", { required }, ...options);
  node.selectedIndex = Math.max(chosen + none, 0);
  return { node, value: () => (node.value === "" ? undefined : choices[node.value][0]) };
}

/** Creates a checkbox, or a list if the value may also be omitted. */
function booleanControl(value, required) {
  if (!required && value === undefined) {
    return choiceControl(
      [
        [true, "yes"],
        [false, "no"],
      ],
      value,
      required,
    );
  }
  const node = make("input", { type: "checkbox", checked: value === true });
  return { node, value: () => node.checked };
}

function numberControl({ type, minimum, maximum, multipleOf }, value, required) {
  const step = type === "integer" && !multipleOf ? 1 : "any";
  const range = { min: minimum ?? "", max: maximum ?? "" };
  const node = make("input", { type: "number", required, step, ...range, value: value ?? "" });
  return { node, value: () => (node.value === "" ? undefined : node.valueAsNumber) };
}

const INPUT_TYPES = { date: "date", email: "email", uri: "url" };

function textControl({ format, minLength, maxLength }, value, required) {
  const type = INPUT_TYPES[format];
  const node = type ? make("input", { type }) : make("textarea", { rows: 1 });
  if (minLength) node.minLength = minLength;
  if (maxLength) node.maxLength = maxLength;
  Object.assign(node, { required, value: value ?? "" });
  node.onkeydown = (event) => {
    // Shift and Enter adds a line; Enter alone submits, as in a single-line field.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    node.form.requestSubmit();
  };
  return { node, value: () => (node.value === "" && !required ? undefined : node.value) };
}

const JSON_KINDS = {
  array: { placeholder: "[ ]", fits: Array.isArray },
  object: {
    placeholder: "{ }",
    fits: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  },
};

/** Creates a JSON field, for types without a control of their own. */
function jsonControl({ type }, value, required) {
  const { placeholder, fits } = JSON_KINDS[type] ?? { placeholder: "JSON", fits: () => true };
  const node = make("textarea", { required, rows: 3, spellcheck: false, className: "mono" });
  node.placeholder = placeholder;
  node.value = value === undefined ? "" : pretty(value);
  const read = () => (node.value.trim() === "" ? undefined : JSON.parse(node.value));
  node.oninput = () => {
    let problem = "";
    try {
      const value = read();
      if (value !== undefined && !fits(value)) problem = `Write a JSON ${type}: ${placeholder}`;
    } catch (error) {
      problem = `Invalid JSON: ${error.message}`;
    }
    node.setCustomValidity(problem);
  };
  return { node, value: read };
}

/** Creates checkboxes for several of a list of values. */
function several(choices, value, required) {
  const chosen = Array.isArray(value) ? value : [];
  const boxes = choices.map(([choice]) => {
    return make("input", { type: "checkbox", checked: chosen.includes(choice) });
  });
  const labels = choices.map(([, title], at) => {
    return make("label", { className: "check" }, boxes[at], title);
  });
  const read = () => choices.filter((_, at) => boxes[at].checked).map(([choice]) => choice);
  return {
    node: make("div", { className: "checks" }, ...labels),
    value: () => (read().length > 0 || required ? read() : undefined),
  };
}

/** Creates the labelled field of one property. */
function field(name, schema, items, value, required) {
  const names = [schema.title ?? name, text("small", hint(schema, required))];
  const about = schema.description && text("p", schema.description, "soft");
  const choices = items && listed(items);
  if (choices) {
    const group = several(choices, value, required);
    const legend = make("legend", {}, ...names);
    const node = make("fieldset", { className: "field" }, legend, about, group.node);
    return { name, node, value: group.value };
  }
  const { node, value: read } = control(schema, value, required);
  node.id = `field-${++lastField}`;
  if (about) {
    about.id = `${node.id}-about`;
    node.setAttribute("aria-describedby", about.id);
  }
  const label = make("label", { htmlFor: node.id }, ...names);
  const row = make("div", { className: "field" }, label, about, node);
  if (node.type === "checkbox") row.classList.add("single");
  return { name, node: row, value: read };
}

/** Creates the fields of an object, filled with `initial` or the schema's defaults. */
function fields(root, initial) {
  const schema = plain(root, root);
  const all = Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const facts = plain(property, root);
    const items = facts.type === "array" ? plain(facts.items, root) : undefined;
    const own = initial && Object.hasOwn(initial, name) ? initial[name] : undefined;
    const value = initial ? own : facts.default;
    return field(name, facts, items, value, schema.required?.includes(name) ?? false);
  });
  const values = () => {
    const read = all.map(({ name, value }) => [name, value()]);
    return Object.fromEntries(read.filter(([, value]) => value !== undefined));
  };
  return { nodes: all.map(({ node }) => node), values };
}

/** Lets Ctrl and Enter submit a form from any of its fields. */
function sendable(form) {
  form.onkeydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  };
  return form;
}
