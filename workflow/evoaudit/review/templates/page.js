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

function store(state) {
  if (!storing) return;
  try {
    localStorage.setItem(KEPT, JSON.stringify(state));
  } catch (error) {
    storing = false;
    warn();
  }
}

// Give what this browser has kept to `take`, which throws at what it cannot read.
function restore(take) {
  let text = null;
  try {
    text = localStorage.getItem(KEPT);
    localStorage.setItem("evoaudit:probe", "1");
    localStorage.removeItem("evoaudit:probe");
  } catch (error) {
    storing = false;
    warn();
  }
  if (text === null) return;
  try {
    take(JSON.parse(text));
  } catch (error) {
    say(`What this browser had kept of these ${data.noun} cannot be read; it starts anew.`);
  }
}

function warn() {
  put("unsaved", "This browser does not keep what you decide: a reload loses it. Export before you leave.");
  byId("unsaved").hidden = false;
}

// Another tab with these items has changed something: it had everything this one had.
function followTabs(taken) {
  addEventListener("storage", (event) => {
    if (event.key === KEPT && event.newValue !== null) taken();
  });
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
  addEventListener("beforeunload", (event) => { if (!storing && unexported) event.preventDefault(); });
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
