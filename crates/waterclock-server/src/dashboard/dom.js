// Building pieces of the page. Whatever a server or a client has chosen gets into it as text only.

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

// Writes only what has changed: readers of the screen are told of changes.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// A key may be written from right to left, and must not turn what stands beside it.
export const keyText = (key) => make("bdi", {}, key);
