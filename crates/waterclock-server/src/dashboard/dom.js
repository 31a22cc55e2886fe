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
