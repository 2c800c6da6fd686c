// Results and errors, as blocks.

/** Creates a link if the address is HTTP(S), else text. */
function link(address) {
  if (!/^https?:\/\//i.test(address)) return text("code", address);
  const rel = "noopener noreferrer";
  return make("a", { href: address, target: "_blank", rel, textContent: address });
}

function block(...children) {
  return make("div", { className: "block card" }, ...children);
}

/** Creates a text block; JSON is indented. */
function body(content, mimeType = "") {
  if (!content) return text("p", "empty", "soft");
  if (!/[/+]json$/.test(mimeType)) return text("pre", content);
  try {
    return text("pre", pretty(JSON.parse(content)));
  } catch {
    return text("pre", content);
  }
}

/** Creates an image, an audio player or a download link for base64 data. */
function media(mimeType = "application/octet-stream", data = "", name = "file") {
  const source = `data:${mimeType};base64,${data}`;
  const caption = text("small", mimeType);
  if (mimeType.startsWith("image/")) {
    return [make("img", { src: source, alt: `Picture, ${mimeType}` }), caption];
  }
  if (mimeType.startsWith("audio/")) {
    return [make("audio", { src: source, controls: true, "aria-label": "Sound" }), caption];
  }
  return [make("a", { href: source, download: name, textContent: `Save ${name}` }), caption];
}

/** Creates the block of a resource with its contents. */
function resource({ uri = "", mimeType, text: content, blob }) {
  const name = uri.split("/").pop();
  const held = blob === undefined ? [body(content, mimeType)] : media(mimeType, blob, name);
  return block(make("p", { className: "soft" }, link(uri)), ...held);
}

/** Creates the block of a resource link, with a button that reads the resource. */
function resourceLink({ uri, name, title, description }) {
  const button = make("button", { type: "button", textContent: "Read" });
  const label = make("p", {}, `${title ?? name} `, make("small", {}, link(uri)));
  const top = make("div", { className: "row spread" }, label, button);
  const place = make("div", { className: "outcome", role: "status" });
  button.onclick = async () => {
    try {
      const { contents } = await ask("resources/read", { uri }, { name: uri });
      place.replaceChildren(...contents.map(resource));
    } catch (problem) {
      place.replaceChildren(failure(problem));
    }
  };
  return block(top, description && text("p", description, "soft"), place);
}

function content(part) {
  switch (part.type) {
    case "text":
      return block(body(part.text));
    case "image":
    case "audio":
      return block(...media(part.mimeType, part.data));
    case "resource":
      return resource(part.resource);
    case "resource_link":
      return resourceLink(part);
    default:
      return block(text("pre", pretty(part)));
  }
}

/** Returns whether a text block repeats the structured content. */
function repeats({ type, text }, structured) {
  try {
    return type === "text" && JSON.stringify(JSON.parse(text)) === JSON.stringify(structured);
  } catch {
    return false;
  }
}

/** Creates the blocks of a result. */
function contents({ content: parts = [], structuredContent }) {
  const blocks = parts.filter((part) => !repeats(part, structuredContent)).map(content);
  if (structuredContent !== undefined)
    blocks.unshift(block(text("pre", pretty(structuredContent))));
  return blocks.length > 0 ? blocks : [text("p", "The result is empty.", "soft")];
}

const MEANINGS = {
  "-32020": "The headers do not match the message; the tool may have changed. Reload the page.",
  "-32021": "This requires a client capability that this page does not have.",
  "-32022": `This page uses revision ${REVISION}, which the server does not support.`,
  "-32601": "The server does not support this method.",
  "-32602": "The server rejected the parameters.",
  "-32603": "Internal error of the server.",
};

/** Creates the block of an error: meaning, message, data and codes. */
function failure({ message, code, data, status }) {
  const meaning = MEANINGS[code];
  const numbers = [code && `code ${code}`, status && `HTTP ${status}`].filter(Boolean);
  return block(
    text("p", meaning ?? message, "alarm"),
    meaning && text("p", message),
    data !== undefined && text("pre", pretty(data)),
    numbers.length > 0 && text("small", numbers.join(" · ")),
  );
}
