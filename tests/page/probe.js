// What of a test runs inside the page: it finds things by the names that people and screen readers
// know them by, waits for what the page shows, and measures what can be seen.

const probe = {
  /** Waits until `look` gives something, looking again whenever the page changed. */
  until(look) {
    return new Promise((resolve) => {
      const observer = new MutationObserver(() => check());
      const check = () => {
        const found = look();
        if (found) observer.disconnect();
        if (found) resolve(found);
      };
      const all = { attributes: true, characterData: true, childList: true, subtree: true };
      observer.observe(document, all);
      check();
    });
  },

  /** The line of a tool. */
  tool: (name) => document.getElementById(`tool-${name}`),

  /** The field with this label inside `scope`, a box of a group by its own label. */
  field(scope, label) {
    const labels = [...scope.querySelectorAll("label")];
    const begin = (node) => (node.firstChild.nodeType === Node.TEXT_NODE ? node.firstChild : node);
    const found = labels.find((node) => begin(node).textContent.trim() === label);
    return found?.control;
  },

  button: (scope, label) =>
    [...scope.querySelectorAll("button")].find(
      (button) => button.textContent === label && button.checkVisibility(),
    ),

  /** What a tool's last call came to, once it did: its headline and its blocks. */
  outcome(name) {
    if (probe.tool(name).querySelector("form").ariaBusy !== "false") return undefined;
    const [headline, place] = probe.tool(name).querySelectorAll("[role=status], [tabindex]");
    const blocks = [...place.querySelectorAll(":scope > :not(details)")];
    const parts = (block) => [...block.querySelectorAll("img, audio, a")];
    return {
      headline: headline.textContent.split(" · ")[0],
      blocks: blocks.map((block) => block.innerText.trim()),
      media: blocks.flatMap(parts).map((part) => part.localName),
    };
  },

  /** What the page says how many of these there are. */
  count(name) {
    const rows = [...document.querySelectorAll("#live div")];
    const row = rows.find((row) => row.querySelector("dt").textContent === name);
    return row?.querySelector("dd").textContent;
  },

  /** The channels of a colour as the browser computed it, with its opacity. */
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

  /** The first background that is not transparent, from a node outwards. */
  background(node) {
    for (let at = node; at; at = at.parentElement) {
      const channels = probe.channels(getComputedStyle(at).backgroundColor);
      if (channels[3] === 255) return channels;
    }
    return [255, 255, 255];
  },

  /** The texts that stand out too little from what is behind them, with their ratios. */
  faint(ratioMin) {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      const isSeen = walker.currentNode.data.trim() && node.checkVisibility();
      if (!isSeen || node.localName === "noscript" || node.localName === "option") continue;
      const ink = probe.luminance(probe.channels(getComputedStyle(node).color));
      const paper = probe.luminance(probe.background(node));
      const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
      if (ratio < ratioMin) found.push(`${ratio.toFixed(2)}: ${walker.currentNode.data}`);
    }
    return found;
  },
};
