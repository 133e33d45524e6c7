"use strict";
// What the pages share. Text from logs only ever becomes text nodes.
const data = JSON.parse(document.getElementById("data").textContent);
const items = data.items;
const place = new Map(items.map((item, index) => [item.id, index]));
const KEPT = "evoaudit:" + data.set;
// Seconds without a sign of life that still count as looking, and bytes of a file that is read.
const IDLE = 60, LARGEST = 64 * 2 ** 20;
let current = 0, storing = true, unexported = false, moment = 0;

const byId = (id) => document.getElementById(id);

function put(id, text) {
  byId(id).textContent = text;
}

function wire(id, event, action) {
  const node = byId(id);
  if (node) node.addEventListener(event, action);
}

function cycle(list, value) {
  return list[(list.indexOf(value) + 1) % list.length];
}

function seek(from, by, fits) {
  for (let index = from; index >= 0 && index < items.length; index += by) if (fits(index)) return index;
  return -1;
}

// ---- keeping

// What is decided is kept twice: in localStorage, which has it at once, and in IndexedDB, which holds far more. A reload takes the later.
let serial = 0, restored = false, near = true, deep = false, database = null, waiting = null, writing = false;
const neighbours = channel();

function channel() {
  try { return new BroadcastChannel(KEPT); } catch (error) { return null; }
}

function openDatabase() {
  return new Promise((found) => {
    const none = () => found(null);
    setTimeout(none, 3000);
    try {
      const asked = indexedDB.open("evoaudit", 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore("kept");
      asked.onsuccess = () => found(asked.result);
      asked.onerror = asked.onblocked = none;
    } catch (error) { none(); }
  });
}

// Do one thing in the database; nothing comes of it where the database cannot.
function within(mode, act) {
  return new Promise((found) => {
    try {
      const work = database.transaction("kept", mode), asked = act(work.objectStore("kept"));
      work.oncomplete = () => found({value: asked.result});
      work.onabort = work.onerror = () => found(null);
    } catch (error) { found(null); }
  });
}

function store(state) {
  if (!restored) return;
  serial += 1;
  const text = JSON.stringify({...state, serial});
  try {
    localStorage.setItem(KEPT, text);
    near = true;
  } catch (error) { near = false; }
  waiting = text;
  if (database) write(); else warn();
}

// One write at a time; of those that wait, the last.
async function write() {
  if (writing) return;
  writing = true;
  while (waiting !== null) {
    const text = waiting;
    waiting = null;
    deep = Boolean(await within("readwrite", (kept) => kept.put(text, KEPT)));
    if (deep && !near && neighbours) neighbours.postMessage(text);
  }
  writing = false;
  warn();
}

// Give what this browser has kept to `take`, which throws at what it cannot read. Until then nothing can be decided.
async function restore(take) {
  const main = document.querySelector("main"), texts = [];
  main.inert = true;
  try {
    texts.push(localStorage.getItem(KEPT));
    localStorage.setItem("evoaudit:probe", "1");
    localStorage.removeItem("evoaudit:probe");
  } catch (error) { near = false; }
  database = await openDatabase();
  const held = database && await within("readonly", (kept) => kept.get(KEPT));
  deep = Boolean(held);
  if (held) texts.push(held.value);
  const states = texts.filter(Boolean).map((text) => { try { return JSON.parse(text); } catch (error) { return null; } });
  const latest = states.reduce((a, b) => !b || (a && (a.serial || 0) >= (b.serial || 0)) ? a : b, null);
  try {
    if (states.length && !latest) throw new Error("not JSON");
    if (latest) take(latest);
    serial = latest ? latest.serial || 0 : 0;
  } catch (error) {
    say(`What this browser had kept of these ${data.noun} cannot be read; it starts anew.`);
  }
  restored = true;
  main.inert = false;
  warn();
}

function warn() {
  storing = near || deep;
  if (!storing) put("unsaved", "This browser does not keep what you decide: a reload loses it. Export before you leave.");
  byId("unsaved").hidden = storing;
}

// Another tab with these items has changed something: it had everything this one had.
function followTabs(take) {
  const taken = (text) => {
    const state = JSON.parse(text);
    serial = Math.max(serial, state.serial || 0);
    take(state);
  };
  addEventListener("storage", (event) => {
    if (event.key === KEPT && event.newValue !== null) taken(event.newValue);
  });
  if (neighbours) neighbours.addEventListener("message", (event) => taken(event.data));
}

// ---- time

// Give `spend` the seconds since the last sign of life, of a pause the first minute.
function passed(spend) {
  const now = performance.now() / 1000;
  if (moment && items.length) spend(Math.min(now - moment, IDLE));
  moment = document.hidden ? 0 : now;
}

function watch(tick, keep) {
  for (const event of ["pointerdown", "pointermove", "wheel"]) addEventListener(event, tick, {passive: true});
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { moment = performance.now() / 1000; return; }
    tick();
    moment = 0;
    if (items.length) keep();
  });
  addEventListener("pagehide", () => { tick(); if (items.length) keep(); });
  addEventListener("beforeunload", (event) => { if ((!storing || (!near && writing)) && unexported) event.preventDefault(); });
}

// ---- saying

let fading = 0;
function say(text) {
  put("said", text);
  clearTimeout(fading);
  fading = setTimeout(() => { put("said", ""); }, 6000);
}

// ---- files

// Half a character, as cutting a text may leave it, is none that a file can keep.
const whole = (text) => text.replace(/[\ud800-\udfff]/gu, "\ufffd");

function save(name, rows) {
  const link = document.createElement("a");
  const text = rows.map((row) => JSON.stringify(row, (_, value) => typeof value === "string" ? whole(value) : value) + "\n");
  link.download = name;
  const address = URL.createObjectURL(new Blob(text, {type: "application/jsonl"}));
  link.href = address;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

async function textOf(file) {
  try {
    return new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  } catch (error) {
    throw error instanceof TypeError ? new Error("not UTF-8 text") : error;
  }
}

// Read JSON Lines as strictly as the command line does; `read` makes a row of an object, or tells `fault` what is wrong with it.
function parseLines(text, longest, noun, read) {
  const found = [];
  text.replace(/^\ufeff/, "").split("\n").forEach((raw, number) => {
    if (!raw.trim()) return;
    const fault = (what) => { throw new Error(`line ${number + 1}: ${what}`); };
    if (raw.length >= longest) fault(`too long for a ${noun}`);
    let line, names = -1;
    const count = function (name, value) {
      if (!Array.isArray(this)) names += 1;
      return value;
    };
    try { line = JSON.parse(raw, count); } catch (error) { fault("not JSON"); }
    if (line === null || typeof line !== "object" || Array.isArray(line)) fault(`no ${noun}`);
    // Of a name that stands there twice the parser keeps one, but it has a colon each time.
    if (raw.replace(/"(?:[^"\\]|\\.)*"/g, "").split(":").length - 1 !== names) fault("a name that stands there twice");
    for (const [name, value] of Object.entries(line)) if (typeof value === "string" && whole(value) !== value) fault(`${name} holds half a character`);
    found.push(read(line, fault));
  });
  return found;
}

async function importFiles(files, take) {
  const told = [];
  for (const file of files) {
    try {
      if (file.size > LARGEST) throw new Error(`it is too large for ${data.lines}`);
      told.push(`${file.name}: ${take(await textOf(file))}`);
    } catch (error) {
      told.push(`${file.name}: nothing taken: ${error.message}`);
    }
  }
  return told.join("\n");
}

// ---- pictures

function showPicture(frame, shot, alt, fallback) {
  if (!shot) {
    const gone = document.createElement("p");
    gone.className = "gone";
    gone.textContent = fallback;
    frame.append(gone);
    return null;
  }
  const image = document.createElement("img");
  image.alt = alt;
  image.decoding = "async";
  image.draggable = false;
  image.width = shot.width;
  image.height = shot.height;
  image.src = shot.src;
  image.addEventListener("error", () => { image.remove(); showPicture(frame, null, alt, "the picture’s file is missing"); });
  frame.append(image);
  return image;
}

function showMark(frame, mark) {
  const node = document.createElement("span");
  node.className = "width" in mark ? "mark" : "mark point";
  for (const side of ["left", "top", "width", "height"]) if (side in mark) node.style[side] = mark[side] + "%";
  frame.append(node);
  return node;
}

function showTiles(frame, change) {
  const bits = atob(change.bits), canvas = document.createElement("canvas");
  canvas.width = change.across;
  canvas.height = change.down;
  canvas.style.width = change.width + "%";
  canvas.style.height = change.height + "%";
  const pen = canvas.getContext("2d");
  pen.fillStyle = "rgb(255 0 140 / 38%)";
  for (let tile = 0; tile < canvas.width * canvas.height; tile++) {
    if (bits.charCodeAt(tile >> 3) >> (7 - tile % 8) & 1) pen.fillRect(tile % canvas.width, Math.floor(tile / canvas.width), 1, 1);
  }
  frame.append(canvas);
}

// ---- keys

const help = byId("help");
function toggleHelp() {
  if (help.open) help.close(); else help.showModal();
}

// Leave a box by Escape, and by Enter if `done` agrees; a list keeps its arrows.
function typing(event, box, done) {
  if (event.key === "Escape") {
    event.preventDefault();
    done(box, false);
    box.blur();
  } else if (event.key === "Enter" && !event.shiftKey && box.tagName !== "SELECT") {
    event.preventDefault();
    if (done(box, true)) box.blur();
  }
}
