"use strict";
// Files of data that a page loads when it wants them: scripts that hand over JSON, since a page opened from a file can read no others.
// The page says where they lie (FOLDER), what they may be called (FILE), and what to do where one is gone (GONE).
const HELD = 12;
const held = new Map(), coming = new Map();
const rules = {
  createScriptURL: (name) => {
    if (!FILE.test(name)) throw new TypeError("no file of this page");
    return `${FOLDER}/${name}.js`;
  },
};
const policy = window.trustedTypes ? trustedTypes.createPolicy("evoaudit", rules) : rules;

// Every file calls this.
function deliver(name, text) {
  const one = coming.get(name);
  if (!one) return;
  coming.delete(name);
  const value = JSON.parse(text);
  held.set(name, value);
  while (held.size > HELD) held.delete(held.keys().next().value);
  one.found(value);
}

function load(name) {
  if (held.has(name)) {
    const value = held.get(name);
    held.delete(name);
    held.set(name, value);
    return Promise.resolve(value);
  }
  if (coming.has(name)) return coming.get(name).promise;
  const one = {};
  one.promise = new Promise((found, failed) => Object.assign(one, {found, failed}));
  coming.set(name, one);
  const script = document.createElement("script");
  const over = () => {
    script.remove();
    if (coming.get(name) !== one) return;
    coming.delete(name);
    one.failed(new Error(`${FOLDER}/${name}.js is missing or damaged${GONE}`));
  };
  script.addEventListener("load", over);
  script.addEventListener("error", over);
  script.src = policy.createScriptURL(name);
  document.head.append(script);
  return one.promise;
}

