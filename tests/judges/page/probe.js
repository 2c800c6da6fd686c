// Runs inside the page: finds elements by their visible or accessible names, waits for changes of
// the DOM, and measures contrast.

const probe = {
  /** Waits until `query` returns a truthy value, evaluated again after each DOM change. */
  until(query) {
    return new Promise((resolve) => {
      const observer = new MutationObserver(() => check());
      const check = () => {
        const found = query();
        if (found) observer.disconnect();
        if (found) resolve(found);
      };
      const options = { attributes: true, characterData: true, childList: true, subtree: true };
      observer.observe(document, options);
      check();
    });
  },

  /** The element of a tool. */
  tool: (name) => document.getElementById(`tool-${name}`),

  /** The control with this label inside `scope`. */
  field(scope, label) {
    const labels = [...scope.querySelectorAll("label")];
    const textOf = (node) => (node.firstChild.nodeType === Node.TEXT_NODE ? node.firstChild : node);
    const found = labels.find((node) => textOf(node).textContent.trim() === label);
    return found?.control;
  },

  button: (scope, label) =>
    [...scope.querySelectorAll("button")].find(
      (button) => button.textContent === label && button.checkVisibility(),
    ),

  /** The outcome of a tool's last call once it has ended: headline and content blocks. */
  outcome: (name) => probe.outcomeOf(probe.tool(name)),

  /** The outcome of the last request of an entry of a list. */
  outcomeOf(entry) {
    if (entry.querySelector("form")?.ariaBusy !== "false") return undefined;
    const [headline, output] = entry.querySelectorAll("[role=status], [tabindex]");
    const blocks = [...output.querySelectorAll(":scope > :not(details)")];
    const parts = (block) => [...block.querySelectorAll("img, audio, a")];
    return {
      headline: headline.textContent.split(" · ")[0],
      blocks: blocks.map((block) => block.innerText.trim()),
      media: blocks.flatMap(parts).map((part) => part.localName),
    };
  },

  /** The value of a counter on the page. */
  count(name) {
    const rows = [...document.querySelectorAll("#live div")];
    const row = rows.find((row) => row.querySelector("dt").textContent === name);
    return row?.querySelector("dd").textContent;
  },

  /** The RGBA channels of a computed colour. */
  channels(colour) {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  },

  /** The relative luminance of WCAG 2.2. */
  luminance([red, green, blue]) {
    const linear = (part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  },

  /** The first opaque background among a node and its ancestors. */
  background(node) {
    for (let at = node; at; at = at.parentElement) {
      const channels = probe.channels(getComputedStyle(at).backgroundColor);
      if (channels[3] === 255) return channels;
    }
    return [255, 255, 255];
  },

  /** The texts with a contrast ratio below `ratioMin`, with their ratios. */
  lowContrast(ratioMin) {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      const isVisible = walker.currentNode.data.trim() && node.checkVisibility();
      if (!isVisible || node.localName === "noscript" || node.localName === "option") continue;
      const foreground = probe.luminance(probe.channels(getComputedStyle(node).color));
      const background = probe.luminance(probe.background(node));
      const [dark, light] = [foreground, background].sort((one, other) => one - other);
      const ratio = (light + 0.05) / (dark + 0.05);
      if (ratio < ratioMin) found.push(`${ratio.toFixed(2)}: ${walker.currentNode.data}`);
    }
    return found;
  },
};
