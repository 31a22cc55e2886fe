// Helpers to build the page. Data from servers and clients enters it as text only.

export const by = (id) => document.getElementById(id);

// An element with attributes, listeners (`on…`) and children; strings become text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Sets the text only if it changed, because screen readers announce changes.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Isolates a key, so that right-to-left text does not affect its neighbours.
export const keyText = (key) => make("bdi", {}, key);

// A key made of fields as "name: value" of each; another one as itself.
export function keyParts(key, fields) {
  if (!fields) return keyText(key);
  return make("span", { class: "fields-of" }, ...Object.entries(fields).map(([name, value]) =>
    make("span", {}, make("span", { class: "muted" }, `${name}: `), keyText(value))));
}

// Buttons that copy the text of another element.
export function startCopying() {
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => {
      // Without TLS the page may not write to the clipboard; the selected text can still be copied by hand.
      const from = by(button.dataset.copies);
      getSelection().selectAllChildren(from);
      await navigator.clipboard?.writeText(from.textContent).then(() => setText(button, "Copied"), () => {});
      setTimeout(() => setText(button, "Copy"), 2_000);
    });
  }
}
