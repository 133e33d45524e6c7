// One step of one trajectory is on the page at a time. Texts and places come in files that are loaded when they are wanted.
const VERDICTS = data.verdicts.map((one) => one.code), CATEGORIES = data.categories.map((one) => one.code);
const NAMES = new Map([...data.verdicts, ...data.categories].map((one) => [one.code, one.name]));
const MEANT = new Map([...data.verdicts, ...data.categories].map((one) => [one.code, one.text]));
const SURE = new Map([[0.33, "hardly sure"], [0.67, "fairly sure"], [1, "quite sure"]]);
const SHOWS = ["all", "undecided", "decided", "skipped", "flagged", ...(data.stage === "adjudicated" ? ["differ"] : [])];
const VIEWS = ["side", "swipe", "one"], ZOOMS = ["fit", "width", "full", "double"];
const WORDS = {
  side: "Side by side", swipe: "Swipe", one: "One at a time", fit: "Fit", width: "Full width", full: "Full size", double: "Double size",
};
const ARROWS = {up: "⬆", down: "⬇", left: "⬅", right: "➡"};
// Width of a page by its height, below which it is a long one.
const LONG = 1 / 3;
const FOLDER = "items", FILE = /^item-[0-9a-f]{16}(-\d+)?$/, GONE = "";
// Changes that can be undone, pictures of the strip, characters of a label's line, and lines of a list.
const UNDO = 500, STRIP = 15, LONGEST = 65536, LISTED = 100;
const EMPTY = {verdict: null, category: null, evidence: [], confidence: null, note: "", discuss: false, skipped: false};

// Item → label as it stands, seconds, steps looked at, and step last looked at.
let labels = new Map(), seconds = new Map(), viewed = new Map(), stood = new Map();
let history = [], show = items.some((one) => one.differ) ? "differ" : "all", view = "side", zoomed = "fit", side = "before", marked = true, tiled = false, warned = "";
let head = null, ahead = [];

const item = () => items[current];
const labelOf = (id) => labels.get(id) || EMPTY;
const seen = (id) => viewed.get(id) || viewed.set(id, new Set()).get(id);
const step = () => stood.get(item().id) || 0;

const partOf = (number) => head.parts.findLastIndex((first) => first <= number);

// ---- keeping

function keep() {
  store({
    version: 1, codebook: data.codebook, labels: [...labels], seconds: [...seconds].map(([id, n]) => [id, Math.round(n * 10) / 10]),
    viewed: [...viewed].map(([id, steps]) => [id, [...steps]]), stood: [...stood], current: items.length ? item().id : "", unexported,
  });
}

function takeUp(state) {
  if (state.version !== 1 || state.codebook !== data.codebook) throw new Error("of another version");
  const known = (pairs) => pairs.filter(([id]) => place.has(id));
  labels = new Map(known(state.labels).map(([id, label]) => [id, {...EMPTY, ...label}]));
  seconds = new Map(known(state.seconds));
  viewed = new Map(known(state.viewed).map(([id, steps]) => [id, new Set(steps)]));
  stood = new Map(known(state.stood));
  unexported = Boolean(state.unexported);
  current = place.get(state.current) ?? 0;
}

function tick() {
  passed((spent) => { seconds.set(item().id, (seconds.get(item().id) || 0) + spent); });
}

// ---- what is decided

// Say what a label lacks; nothing if it is whole.
function lacks(label, one) {
  if (label.skipped) return label.note ? [] : ["a note that says why it is skipped"];
  if (!label.verdict) return ["a verdict"];
  const found = [];
  if (label.verdict === "gf" && !label.category) found.push("a category");
  if (label.verdict !== "unclear" && one.n && !label.evidence.length) found.push("a step as evidence");
  if (label.confidence === null) found.push("how sure you are");
  if ((label.verdict === "unclear" || label.category === "other") && !label.note) found.push("a note");
  return found;
}
const settled = (one) => !lacks(labelOf(one.id), one).length;
const decided = (one) => settled(one) && !labelOf(one.id).skipped;
const skipped = (one) => settled(one) && labelOf(one.id).skipped;
const open = (index) => !settled(items[index]);
const begun = (label) => Boolean(label.skipped || label.verdict || label.evidence.length || label.note || label.discuss || label.confidence !== null);

function matches(index) {
  const one = items[index];
  return {all: true, undecided: !settled(one), decided: decided(one), skipped: skipped(one), flagged: labelOf(one.id).discuss, differ: one.differ}[show];
}

function words(label) {
  if (label.skipped) return "Skipped";
  const parts = [label.verdict ? NAMES.get(label.verdict) : "no verdict"];
  if (label.category) parts.push(NAMES.get(label.category));
  return parts.join(": ");
}

function change(id, made) {
  const before = labels.get(id);
  const after = {...labelOf(id), ...made};
  if (after.skipped) after.verdict = null;
  if (after.verdict !== "gf") after.category = null;
  if (JSON.stringify(after) === JSON.stringify(before || EMPTY)) return false;
  history.push([id, before]);
  if (history.length > UNDO) history.shift();
  if (begun(after)) labels.set(id, after); else labels.delete(id);
  unexported = true;
  warned = "";
  keep();
  return true;
}

function decide(verdict) {
  tick();
  change(item().id, {verdict, skipped: false});
  drawDecision();
  say(`${NAMES.get(verdict)}${wantedWords()}`);
}

function categorise(category) {
  tick();
  const label = labelOf(item().id);
  if (label.verdict && label.verdict !== "gf") return say(`Only a ${NAMES.get("gf").toLowerCase()} has a category; this is: ${NAMES.get(label.verdict).toLowerCase()}.`);
  change(item().id, {verdict: "gf", category, skipped: false});
  drawDecision();
  say(`${NAMES.get(category)}${wantedWords()}`);
}

function toggleEvidence(number) {
  tick();
  if (!item().n) return say("There are no steps.");
  const evidence = labelOf(item().id).evidence, has = evidence.includes(number);
  change(item().id, {evidence: has ? evidence.filter((one) => one !== number) : [...evidence, number].sort((a, b) => a - b)});
  drawDecision();
  drawStrip();
  byId("evident").hidden = !labelOf(item().id).evidence.includes(step());
  say(`Step ${number} is ${has ? "no longer" : "now"} evidence${wantedWords()}`);
}

function trust(confidence) {
  tick();
  change(item().id, {confidence});
  drawDecision();
  say(`${SURE.get(confidence)}${wantedWords()}`);
}

function skip() {
  tick();
  change(item().id, {skipped: !labelOf(item().id).skipped});
  drawDecision();
  const label = labelOf(item().id);
  if (!label.skipped) return say("No longer skipped.");
  if (label.note) return say("Skipped, for the reason in the note. Enter goes on.");
  byId("note").focus();
  say("Skipped: write why.");
}

function flag() {
  const discuss = !labelOf(item().id).discuss;
  change(item().id, {discuss});
  drawDecision();
  say(discuss ? "Flagged for discussion." : "No longer flagged.");
}

function saveNote() {
  if (change(item().id, {note: byId("note").value.trim()})) {
    drawDecision();
    say("Note saved.");
  }
}

function takeBack() {
  if (!labels.has(item().id)) return say("There is nothing to take back.");
  change(item().id, EMPTY);
  draw();
  say(`Trajectory ${current + 1} is undecided again.`);
}

function undo() {
  const last = history.pop();
  if (!last) return say("Nothing to undo.");
  const [id, before] = last;
  if (before) labels.set(id, before); else labels.delete(id);
  unexported = true;
  keep();
  if (place.get(id) === current) draw(); else go(place.get(id));
  say(`Undone: trajectory ${current + 1}, ${words(labelOf(id)).toLowerCase()}.`);
}

// Take a label that the page shows as one's own.
async function adopt(number, whose) {
  const one = item(), shown = await load(one.id).catch(() => null), given = shown && shown.labels && shown.labels[number];
  if (!given || item() !== one) return;
  change(one.id, {
    verdict: given.verdict, category: given.category, evidence: given.evidence_steps || [], confidence: nearest(given.confidence), note: given.note || "",
    skipped: false,
  });
  draw();
  say(`${whose}: ${words(labelOf(item().id))}${wantedWords()}`);
}

function nearest(confidence) {
  if (confidence === null || confidence === undefined) return null;
  return [...SURE.keys()].reduce((a, b) => Math.abs(b - confidence) < Math.abs(a - confidence) ? b : a);
}

function wantedWords() {
  const found = lacks(labelOf(item().id), item());
  return found.length ? `; still wanted: ${found.join(", ")}.` : ". Enter goes on.";
}

function finish() {
  saveNote();
  const one = item(), found = lacks(labelOf(one.id), one), steps = seen(one.id);
  if (found.length) return say(`Still wanted: ${found.join(", ")}.`);
  if (one.n && !labelOf(one.id).skipped && warned !== one.id && (steps.size < one.n / 2 || !steps.has(one.n - 1))) {
    warned = one.id;
    return say(`You have looked at ${steps.size} of ${one.n} steps${steps.has(one.n - 1) ? "" : ", not at the last"}. Enter again goes on.`);
  }
  // Where only differences are shown, the rest need no decision.
  const wanted = (index) => open(index) && (show !== "differ" || items[index].differ);
  let index = seek(current + 1, 1, wanted);
  if (index < 0) index = seek(0, 1, wanted);
  if (index < 0) return say(`Every trajectory ${show === "differ" ? "on which they differ " : ""}is decided. Export with x.`);
  go(index);
}

// ---- moving

function go(index) {
  if (index < 0 || index >= items.length) return;
  tick();
  current = index;
  tiled = false;
  warned = "";
  keep();
  draw();
  say(`Trajectory ${current + 1} of ${items.length}, ${byId("state").textContent.toLowerCase()}`);
  scrollTo(0, 0);
}

function move(by) {
  const index = seek(current + by, by, matches);
  if (index < 0) say(by > 0 ? "This is the last trajectory shown here." : "This is the first trajectory shown here.");
  else go(index);
}

function stand(number) {
  const last = Math.max(0, item().n - 1), to = Math.min(last, Math.max(0, number));
  tick();
  if (to === step() && number !== to) return say(number < 0 ? "This is the first step." : "This is the last step.");
  stood.set(item().id, to);
  drawStep();
}

// ---- drawing

async function draw() {
  const one = item();
  byId("number").value = current + 1;
  byId("show").value = show;
  byId("practice").hidden = !one.practice;
  document.title = `${current + 1} of ${items.length} · Verdict audit`;
  byId("at").max = Math.max(0, one.n - 1);
  head = null;
  drawDecision();
  drawCounts();
  try {
    const found = await load(one.id);
    if (item() !== one) return;
    head = found;
  } catch (error) {
    byId("screens").classList.add("lost");
    return say(error.message);
  }
  put("where", head.where + (one.simulated ? (head.where ? " · " : "") + "simulated" : ""));
  row("goal", head.goal || "none logged");
  row("answer", head.answer || "none was given");
  put("end", [head.end, head.endText].filter(Boolean).join("\n"));
  byId("end-box").hidden = !head.end && !head.endText;
  byId("masked").hidden = !head.masked;
  drawTicks();
  put("masked", `${head.masked} ${head.masked === 1 ? "word that tells" : "words that tell"} whose trajectory this is ${head.masked === 1 ? "stands" : "stand"} as ▮▮▮.`);
  drawShown();
  drawStep();
  const next = seek(current + 1, 1, matches);
  if (next >= 0) load(items[next].id).catch(() => {});
}

function row(id, text) {
  put(id, text);
  const cell = byId(id).closest("dd");
  cell.hidden = cell.previousElementSibling.hidden = !text;
}

async function drawStep() {
  if (!head) return;
  const one = item(), number = step(), shown = head;
  byId("at").value = number;
  byId("at").setAttribute("aria-valuetext", `step ${number} of 0 to ${one.n - 1}`);
  put("step", one.n ? `Step ${number} of 0–${one.n - 1}` : "No steps were logged");
  byId("gap").hidden = !(one.n && shown.steps[number][2]);
  const again = (shown.again || []).find(([at]) => at === number);
  byId("again").hidden = !again;
  put("again", again ? `same action, screen unchanged: ${again[1]} in a row` : "");
  byId("evident").hidden = !labelOf(one.id).evidence.includes(number);
  drawStrip();
  if (!one.n) {
    for (const id of ["op", "value", "error", "reasoning", "url", "target"]) row(id, "");
    byId("raw-box").hidden = byId("page-box").hidden = true;
    return drawScreens({});
  }
  seen(one.id).add(number);
  const part = partOf(number);
  let steps;
  try {
    steps = await load(`${one.id}-${part}`);
  } catch (error) {
    return say(error.message);
  }
  if (item() !== one || step() !== number) return;
  const now = steps[number - shown.parts[part]];
  put("op", now.op);
  put("value", now.value || "");
  for (const id of ["target", "error", "reasoning", "url"]) row(id, now[id] || "");
  for (const id of ["raw", "page"]) {
    put(id, now[id] || "");
    byId(`${id}-box`).hidden = !now[id];
  }
  for (const node of document.querySelectorAll(".side dd, .side pre")) node.scrollTop = 0;
  drawScreens(now);
  const after = number + 1 - shown.parts[part];
  if (after >= steps.length && number + 1 < one.n) load(`${one.id}-${part + 1}`).catch(() => {});
  drawProgress();
  document.documentElement.dataset.step = `${one.id}/${number}`;
}

function shotsOf(number) {
  const [before, after] = head.steps[number] || [-1, -1];
  return {before: head.pictures[before] || null, after: head.pictures[after] || null};
}

let now = {};
function drawScreens(given) {
  now = given || now;
  const number = step(), shots = shotsOf(number), single = view !== "side";
  const main = view === "swipe" ? (shots.before ? "before" : "after") : side;
  byId("stage").classList.toggle("single", single);
  put("view", WORDS[view] + " ");
  byId("view").append(kbd("v"));
  put("zoom", WORDS[zoomed] + " ");
  byId("zoom").append(kbd("z"));
  byId("flip").setAttribute("aria-pressed", view === "one" && side === "after");
  byId("marks").setAttribute("aria-pressed", marked);
  byId("tiles").setAttribute("aria-pressed", tiled);
  byId("swiping").hidden = view !== "swipe";
  for (const slot of ["before", "after"]) {
    const figure = byId(`figure-${slot}`), frame = figure.querySelector(".frame"), pane = figure.querySelector(".pane");
    figure.classList.toggle("chosen", slot === main);
    pane.classList.toggle("pan", zoomed !== "fit" || Boolean(shots[slot] && shots[slot].width / shots[slot].height < LONG));
    frame.replaceChildren();
    figure.querySelector(".about").replaceChildren();
    if (single && slot !== main) continue;
    figure.querySelector("strong").textContent = view === "swipe" ? "Before | After" : {before: "Before", after: "After"}[slot];
    size(frame, pane, shots[slot]);
    showPicture(frame, shots[slot], `${{before: "Before", after: "After"}[slot]} step ${number}`, "no picture was logged here, or it cannot be shown");
    if (view === "swipe" && slot === "before" && shots.after) {
      const over = showPicture(frame, shots.after, `After step ${number}`, "");
      over.className = "over";
      const cut = document.createElement("span");
      cut.className = "cut";
      frame.append(cut);
      swipeTo(byId("swipe").value);
    }
    if (slot === "before" && marked) drawAction(frame, figure.querySelector(".about"));
    if (tiled && now.change && (slot === "after" || view === "swipe")) showTiles(frame, now.change);
  }
  put("looking", tiled && !now.change ? "no change was measured here" : "");
  // The pictures on either side, so that the next key shows them at once.
  ahead = [];
  for (const by of [1, -1]) {
    const near = number + by >= 0 && number + by < item().n ? shotsOf(number + by) : {};
    for (const shot of [near.before, near.after]) {
      if (!shot) continue;
      const image = new Image();
      image.decoding = "async";
      image.src = shot.src;
      ahead.push(image);
    }
  }
}

function kbd(text) {
  const node = document.createElement("kbd");
  node.textContent = text;
  return node;
}

// Fit a frame into its pane, a long page by its width alone; where nothing is shown, it fills it.
function size(frame, pane, shot) {
  const wide = pane.clientWidth || 320, tall = pane.clientHeight || 240;
  const ground = shot || {width: wide, height: tall}, ratio = ground.width / ground.height;
  const width = {fit: ratio < LONG ? wide : Math.min(wide, tall * ratio), width: wide, full: ground.width, double: 2 * ground.width}[shot ? zoomed : "fit"];
  frame.style.width = `${Math.floor(width)}px`;
  frame.style.height = `${Math.floor(width / ratio)}px`;
}

function drawAction(frame, about) {
  if (now.mark) showMark(frame, now.mark);
  if (now.mark && now.to) {
    const from = {x: now.mark.left + (now.mark.width || 0) / 2, y: now.mark.top + (now.mark.height || 0) / 2};
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), line = document.createElementNS(svg.namespaceURI, "line");
    for (const [name, value] of [["x1", from.x], ["y1", from.y], ["x2", now.to.left], ["y2", now.to.top]]) line.setAttribute(name, `${value}%`);
    svg.append(line);
    const tip = document.createElement("span");
    tip.className = "tip";
    tip.style.left = `${now.to.left}%`;
    tip.style.top = `${now.to.top}%`;
    frame.append(svg, tip);
  }
  if (now.way) {
    const way = document.createElement("span");
    way.className = "way";
    way.textContent = ARROWS[now.way];
    if (now.mark) {
      way.style.left = `${now.mark.left + (now.mark.width || 0) / 2}%`;
      way.style.top = `${now.mark.top + (now.mark.height || 0) / 2}%`;
    }
    frame.append(way);
  }
  if (now.op) {
    const typed = document.createElement("bdi");
    typed.className = "keyed";
    typed.textContent = now.value ? `${now.op}: ${now.value.slice(0, 200)}` : now.op;
    about.append(typed);
  }
}

// Where one action was repeated on an unchanged screen. Only later stages are told.
function drawTicks() {
  const ranges = [], n = item().n;
  for (const [at] of head.again || []) {
    const last = ranges.at(-1);
    if (last && last[1] === at - 1) last[1] = at; else ranges.push([at, at]);
  }
  byId("ticks").hidden = !ranges.length;
  byId("ticks").replaceChildren(...ranges.map(([from, to]) => {
    const tick = document.createElement("span");
    tick.style.left = `${100 * from / Math.max(1, n - 1)}%`;
    tick.style.width = `${100 * (to - from) / Math.max(1, n - 1)}%`;
    return tick;
  }));
}

function drawStrip() {
  const one = item(), number = step(), strip = byId("strip"), evidence = labelOf(one.id).evidence;
  const room = Math.max(3, Math.min(STRIP, Math.floor(strip.clientWidth / 95)));
  const first = Math.max(0, Math.min(number - Math.floor(room / 2), one.n - room)), made = [];
  for (let place = first; place < Math.min(one.n, first + room); place++) {
    const button = document.createElement("button"), label = document.createElement("span"), shot = head && shotsOf(place);
    button.type = "button";
    button.tabIndex = -1;
    button.classList.toggle("here", place === number);
    button.classList.toggle("picked", evidence.includes(place));
    button.classList.toggle("again", Boolean(head && head.again && head.again.some(([at]) => at === place)));
    const small = shot && (shot.before || shot.after);
    if (small && small.small) {
      const image = document.createElement("img");
      image.alt = "";
      image.decoding = "async";
      image.src = small.small;
      button.append(image);
    }
    label.textContent = place;
    button.append(label);
    button.addEventListener("click", () => stand(place));
    made.push(button);
  }
  strip.replaceChildren(...made);
}

// Buttons that go to the steps a label rests on.
function chips(evidence) {
  return evidence.map((number) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = number;
    button.setAttribute("aria-label", `Evidence: step ${number}`);
    button.addEventListener("click", () => stand(number));
    return button;
  });
}

function card(title, label) {
  const box = document.createElement("div"), name = document.createElement("strong"), text = document.createElement("p"), note = document.createElement("p");
  box.className = "card";
  name.textContent = title;
  text.textContent = words(label) + (label.confidence === null ? "" : `, ${SURE.get(nearest(label.confidence))}`);
  const evidence = document.createElement("p");
  evidence.className = "chips";
  evidence.append(...chips(label.evidence_steps || []));
  note.className = "soft";
  note.dir = "auto";
  note.textContent = label.note || "";
  box.append(name, text, evidence, note);
  return box;
}

// What a later stage shows beside the trajectory, and what practice shows once it is decided.
function drawShown() {
  const box = byId("shown"), found = [];
  if (head.released) {
    const told = document.createElement("div"), list = document.createElement("dl");
    told.className = "card";
    for (const [name, value] of head.released) {
      const term = document.createElement("dt"), meaning = document.createElement("dd");
      term.textContent = name;
      meaning.textContent = value;
      meaning.dir = "auto";
      list.append(term, meaning);
    }
    told.append(list);
    found.push(told);
  }
  const given = head.labels || [];
  if (data.stage === "informed" && given.length) found.push(card("Your blind label", given[0]));
  if (data.stage === "adjudicated" && given.length) {
    const both = document.createElement("div");
    both.className = "pairwise";
    both.append(...given.map((label, number) => card("AB"[number], label)));
    found.push(both);
  }
  if (head.signals && head.signals.length) {
    const told = document.createElement("div"), title = document.createElement("strong");
    told.className = "card";
    title.textContent = "What the log alone says";
    told.append(title, ...head.signals.map((signal) => {
      const line = document.createElement("p");
      line.className = "chips";
      line.append(signal.said + " ", ...chips(signal.steps));
      return line;
    }));
    found.push(told);
  }
  if (head.judges && head.judges.length) {
    const box = document.createElement("details"), title = document.createElement("summary");
    title.textContent = `What ${head.judges.length === 1 ? "a judge" : `${head.judges.length} judges`} said`;
    box.append(title, ...head.judges.map((label, number) => card(`Judge ${number + 1}`, label)));
    found.push(box);
  }
  if (head.feedback && settled(item())) found.push(card("Practice: the label agreed on", head.feedback));
  box.replaceChildren(...found);
}

function drawDecision() {
  const one = item(), label = labelOf(one.id);
  for (const button of byId("verdicts").children) button.setAttribute("aria-pressed", button.dataset.verdict === label.verdict);
  byId("categories").hidden = label.verdict !== "gf";
  for (const button of byId("categories").querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.category === label.category);
  for (const button of byId("confidences").querySelectorAll("button")) button.setAttribute("aria-pressed", Number(button.dataset.confidence) === label.confidence);
  byId("evidence").setAttribute("aria-pressed", label.evidence.includes(step()));
  byId("evidence").disabled = !one.n;
  byId("steps").replaceChildren(...chips(label.evidence));
  byId("flag").setAttribute("aria-pressed", label.discuss);
  byId("skip").setAttribute("aria-pressed", label.skipped);
  if (document.activeElement !== byId("note")) byId("note").value = label.note;
  byId("clear").disabled = !labels.has(one.id);
  byId("undo").disabled = !history.length;
  const found = lacks(label, one), meant = MEANT.get(label.category || label.verdict);
  byId("state").className = "state " + (found.length || label.skipped ? "" : "decided");
  put("state", found.length ? (begun(label) ? "begun" : "undecided") : words(label));
  put("wanted", (meant ? `${NAMES.get(label.category || label.verdict)}: ${meant} ` : "") + (found.length && begun(label) ? `Still wanted: ${found.join(", ")}.` : ""));
  if (head) drawShown();
  drawCounts();
}

function drawCounts() {
  const practice = items.filter((one) => one.practice), real = items.filter((one) => !one.practice);
  const done = real.filter(decided).length, passed = items.filter(skipped).length, flagged = items.filter((one) => labelOf(one.id).discuss).length;
  byId("bar").value = items.filter(settled).length;
  const parts = [`${done} of ${real.length} decided`];
  if (practice.length) parts.push(`practice ${practice.filter(decided).length} of ${practice.length}`);
  const apart = items.filter((one) => one.differ);
  if (apart.length) parts.push(`where they differ ${apart.filter(decided).length} of ${apart.length}`);
  if (passed) parts.push(`${passed} skipped`);
  if (flagged) parts.push(`${flagged} flagged`);
  put("counts", parts.join(" · "));
  let n = 0;
  for (let index = 0; index < items.length; index++) n += matches(index);
  put("matching", show === "all" ? "" : `${n} match${matches(current) ? "" : ", not this one"}`);
}

// Progress by what each trajectory names as its site or application, which the page shows anyway.
function drawParts() {
  const rows = new Map();
  for (const one of items) {
    const name = one.practice ? "" : one.part, row = rows.get(name) || rows.set(name, {n: 0, done: 0, passed: 0}).get(name);
    row.n += 1;
    row.done += decided(one);
    row.passed += skipped(one);
  }
  const named = [...rows].sort(([a], [b]) => (a === "") - (b === "") || a.localeCompare(b, "en"));
  byId("parts-list").replaceChildren(...named.map(([name, row]) => {
    const line = document.createElement("tr"), cells = [name || "practice", `${row.done} of ${row.n}`, row.passed ? `${row.passed} skipped` : ""];
    line.append(...cells.map((text, column) => {
      const cell = document.createElement(column ? "td" : "th");
      if (!column) cell.scope = "row";
      cell.dir = column ? "" : "auto";
      cell.textContent = text;
      return cell;
    }));
    return line;
  }));
}

function toggleParts() {
  if (byId("parts").open) return byId("parts").close();
  drawParts();
  byId("parts").showModal();
}

function drawProgress() {
  if (tiled) return;
  const steps = seen(item().id).size;
  put("looking", item().n > 1 ? `${steps} of ${item().n} steps seen` : "");
}

// ---- looking closer

function redraw() {
  if (head) {
    drawScreens();
    drawStrip();
    if (!tiled) drawProgress();
  }
}

function swipeTo(value) {
  byId("swipe").value = value;
  for (const frame of document.querySelectorAll(".frame")) frame.style.setProperty("--swipe", `${byId("swipe").value}%`);
}

function flip() {
  if (view !== "one") [view, side] = ["one", "before"];
  else side = side === "before" ? "after" : "before";
  redraw();
  say(side);
}

const panes = () => [...document.querySelectorAll(".pane")];
function pan(x, y) {
  for (const pane of panes()) pane.scrollBy({left: x * pane.clientWidth * .4, top: y * pane.clientHeight * .4});
}

let leading = null;
for (const pane of panes()) {
  let from = null;
  pane.addEventListener("pointerenter", () => { leading = pane; });
  // Both panes show the same place; the one under the pointer leads.
  pane.addEventListener("scroll", () => {
    if (leading && leading !== pane) return;
    for (const other of panes()) if (other !== pane) [other.scrollLeft, other.scrollTop] = [pane.scrollLeft, pane.scrollTop];
  }, {passive: true});
  pane.addEventListener("pointerdown", (event) => {
    if (!pane.classList.contains("pan") || event.button) return;
    from = {x: event.clientX + pane.scrollLeft, y: event.clientY + pane.scrollTop};
  });
  addEventListener("pointermove", (event) => { if (from) pane.scrollTo(from.x - event.clientX, from.y - event.clientY); }, {passive: true});
  addEventListener("pointerup", () => { from = null; });
}

// ---- files

function rowOf(one) {
  const label = labelOf(one.id), found = {trajectory_id: one.id, annotator: data.annotator, kind: "human", stage: data.stage};
  if (label.skipped) found.skipped = true; else found.verdict = label.verdict;
  if (label.category) found.category = label.category;
  if (label.evidence.length) found.evidence_steps = label.evidence;
  if (label.confidence !== null) found.confidence = label.confidence;
  found.seconds = Math.round((seconds.get(one.id) || 0) * 10) / 10;
  if (label.note) found.note = label.note;
  found.codebook_version = data.codebook;
  if (one.practice) found.practice = true;
  found.viewed = seen(one.id).size;
  if (seen(one.id).has(one.n - 1)) found.saw_last = true;
  if (label.discuss) found.discuss = true;
  return found;
}

function askExport() {
  tick();
  if (document.activeElement === byId("note")) saveNote();
  const left = items.map((_, index) => index).filter(open);
  if (!left.length) return exportFile();
  put("missing-text", `${left.length} of ${items.length} trajectories lack something and are not in the export.`);
  byId("missing-list").replaceChildren(...left.slice(0, LISTED).map((index) => {
    const entry = document.createElement("li"), button = document.createElement("button");
    entry.value = index + 1;
    button.type = "button";
    button.textContent = lacks(labelOf(items[index].id), items[index]).join(", ");
    button.addEventListener("click", () => { byId("missing").close(); go(index); });
    entry.append(button);
    return entry;
  }));
  byId("export-some").disabled = left.length === items.length;
  byId("missing").showModal();
  byId("export-some").focus();
}

function exportFile() {
  const rows = items.filter(settled).map(rowOf), passed = rows.filter((row) => row.skipped).length;
  const who = data.annotator.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  const name = `${who || "labels"}-${data.stage}.jsonl`;
  save(name, rows);
  unexported = false;
  keep();
  const left = items.filter((_, index) => open(index)).length;
  say(`${name}: ${rows.length - passed} labels${passed ? `, ${passed} skipped` : ""}${left ? `; ${left} trajectories are still undecided` : ""}.`);
}

const TEXTS = ["trajectory_id", "annotator", "kind", "stage", "verdict", "category", "note", "codebook_version"];
function readLine(line, fault) {
  for (const name of TEXTS) if (line[name] !== undefined && line[name] !== null && typeof line[name] !== "string") fault(`${name} is not text`);
  if (!line.trajectory_id) fault("no label");
  const index = place.get(line.trajectory_id), one = items[index];
  if (!one) fault("of another page: its trajectory is not here");
  if (line.codebook_version !== data.codebook) fault(`made with codebook ${line.codebook_version || "unknown"}; this page has ${data.codebook}`);
  if (line.annotator !== data.annotator) fault(`by ${line.annotator || "nobody"}; this page is for ${data.annotator}`);
  if (line.stage !== data.stage) fault(`of the stage ${line.stage}; this page is ${data.stage}`);
  const passed = line.skipped === true, verdict = line.verdict ?? null;
  if (passed && !(line.note || "").trim()) fault("a skip without a reason");
  if (passed ? verdict !== null : !VERDICTS.includes(verdict)) fault(passed ? "a skip with a verdict" : "a verdict that is not known");
  const category = line.category || null, evidence = line.evidence_steps || [], confidence = line.confidence ?? null;
  if (category && (!CATEGORIES.includes(category) || line.verdict !== "gf")) fault("a category that does not fit");
  if (!Array.isArray(evidence) || evidence.some((step) => !Number.isInteger(step) || step < 0 || step >= one.n)) fault("evidence steps that are not there");
  if (confidence !== null && !(Number.isFinite(confidence) && confidence >= 0 && confidence <= 1)) fault("no confidence from 0 to 1");
  const spent = line.seconds ?? 0;
  if (!(Number.isFinite(spent) && spent >= 0 && spent < 1e9)) fault("no number of seconds");
  const label = {
    verdict, category, skipped: passed, evidence: [...new Set(evidence)].sort((a, b) => a - b), confidence: nearest(confidence),
    note: (line.note || "").slice(0, 4000), discuss: line.discuss === true,
  };
  return {one, label, spent};
}

function take(found) {
  if (!found.length) throw new Error("it holds no label");
  let taken = 0;
  const contrary = [];
  for (const {one, label, spent} of found) {
    const own = labels.get(one.id);
    if (own && JSON.stringify(own) !== JSON.stringify({...EMPTY, ...label})) { contrary.push(place.get(one.id) + 1); continue; }
    if (!own) {
      change(one.id, label);
      taken += 1;
    }
    seconds.set(one.id, Math.max(seconds.get(one.id) || 0, spent));
  }
  const told = [`${taken} labels taken`];
  if (contrary.length) told.push(`${contrary.length} differ from what is here, which stays: ${contrary.slice(0, 20).join(", ")}`);
  return told.join(", ");
}

async function importAll(files) {
  const told = await importFiles(files, (text) => take(parseLines(text, LONGEST, "label", readLine)));
  keep();
  draw();
  say(told);
}

// ---- keys

function toggleBook() {
  if (byId("book").open) byId("book").close(); else byId("book").showModal();
}

const KEYS = {
  ArrowRight: () => stand(step() + 1), ArrowLeft: () => stand(step() - 1), Home: () => stand(0), End: () => stand(item().n - 1),
  "Shift+ArrowRight": () => stand(step() + 5), "Shift+ArrowLeft": () => stand(step() - 5),
  n: () => move(1), j: () => move(1), p: () => move(-1), k: () => move(-1),
  e: () => toggleEvidence(step()), f: flag, o: () => byId("note").focus(), Enter: finish, Backspace: takeBack,
  0: skip, 7: () => trust(0.33), 8: () => trust(0.67), 9: () => trust(1),
  v: () => { view = cycle(VIEWS, view); redraw(); say(WORDS[view].toLowerCase()); }, b: flip,
  z: () => { zoomed = cycle(ZOOMS, zoomed); redraw(); say(WORDS[zoomed].toLowerCase()); },
  m: () => { marked = !marked; redraw(); say(marked ? "marker shown" : "marker hidden"); },
  l: () => { tiled = !tiled; redraw(); say(tiled ? "changed tiles shown" : "changed tiles hidden"); },
  "[": () => swipeTo(Number(byId("swipe").value) - 5), "]": () => swipeTo(Number(byId("swipe").value) + 5),
  ArrowUp: () => pan(0, -1), ArrowDown: () => pan(0, 1), ",": () => pan(-1, 0), ".": () => pan(1, 0),
  Escape: () => { [view, zoomed, side, tiled] = ["side", "fit", "before", false]; redraw(); },
  x: askExport, i: () => byId("file").click(), c: toggleBook, "Shift+P": toggleParts, "?": toggleHelp,
};
data.verdicts.forEach((one, index) => { if (index < 6) KEYS[index + 1] = () => decide(one.code); });
for (const one of data.categories) KEYS[one.key] = () => categorise(one.code);
if (data.stage === "informed") KEYS["="] = () => adopt(0, "Kept");
if (data.stage === "adjudicated") {
  KEYS["Shift+A"] = () => adopt(0, "As A");
  KEYS["Shift+B"] = () => adopt(1, "As B");
}
const REPEATED = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "[", "]", ",", ".", "Shift+ArrowLeft", "Shift+ArrowRight"];
const ALWAYS = ["?", "c", "i"];

function nameOf(event) {
  if (event.key.length > 1) return event.shiftKey && event.key.startsWith("Arrow") ? `Shift+${event.key}` : event.key;
  const letter = event.key.toLowerCase() !== event.key.toUpperCase();
  return letter && event.shiftKey ? `Shift+${event.key.toUpperCase()}` : event.key.toLowerCase();
}

function leave(box, entered) {
  if (box.id === "note" && entered) saveNote();
  if (box.id === "note" && !entered) box.value = labelOf(item().id).note;
  return true;
}

addEventListener("keydown", (event) => {
  tick();
  if (event.altKey || event.isComposing || !restored) return;
  const box = event.target.closest("input:not([type=range]), textarea, select");
  if (event.ctrlKey || event.metaKey) {
    if (event.key === "z" && !event.shiftKey && !box && items.length) {
      event.preventDefault();
      undo();
    }
    return;
  }
  // A list keeps its arrows, but its letters are no search: it holds few words.
  if (box && !(box.tagName === "SELECT" && event.key.length === 1 && event.key !== " ")) return typing(event, box, leave);
  const name = nameOf(event), dialog = document.querySelector("dialog[open]");
  if (dialog) {
    if ((name === "?" && dialog.id === "help") || (name === "c" && dialog.id === "book") || (name === "Shift+P" && dialog.id === "parts")) {
      event.preventDefault();
      dialog.close();
    }
    return;
  }
  // Enter and the space bar press the button that has the focus.
  if (name === "Enter" && event.target.closest("button, summary")) return;
  if (!KEYS[name] || (event.repeat && !REPEATED.includes(name)) || (!items.length && !ALWAYS.includes(name))) return;
  event.preventDefault();
  KEYS[name]();
});

// ---- wiring

for (const button of document.querySelectorAll("[data-category]")) {
  button.querySelector("kbd").textContent = data.categories.find((one) => one.code === button.dataset.category).key;
}
wire("verdicts", "click", (event) => { const button = event.target.closest("button"); if (button) decide(button.dataset.verdict); });
wire("categories", "click", (event) => { const button = event.target.closest("button"); if (button) categorise(button.dataset.category); });
wire("confidences", "click", (event) => { const button = event.target.closest("button"); if (button) trust(Number(button.dataset.confidence)); });
for (const [id, key] of [["previous", "p"], ["next", "n"], ["view", "v"], ["flip", "b"], ["zoom", "z"], ["marks", "m"], ["tiles", "l"], ["evidence", "e"],
  ["flag", "f"], ["skip", "0"], ["parts-open", "Shift+P"], ["clear", "Backspace"], ["done", "Enter"], ["export", "x"], ["import", "i"], ["book-open", "c"], ["help-open", "?"]]) wire(id, "click", () => KEYS[key]());
wire("undo", "click", undo);
// After the mouse has pressed a button, Enter is the page's again.
addEventListener("click", (event) => { if (event.detail && event.target.closest("button")) event.target.closest("button").blur(); });
wire("at", "input", () => stand(Number(byId("at").value)));
wire("swipe", "input", () => swipeTo(byId("swipe").value));
wire("note", "change", saveNote);
wire("export-some", "click", () => { byId("missing").close(); exportFile(); });
wire("show", "change", () => {
  show = byId("show").value;
  const index = matches(current) ? current : Math.max(seek(current, 1, matches), seek(current, -1, matches));
  if (index >= 0 && index !== current) go(index); else drawCounts();
});
wire("number", "change", () => {
  const index = Number(byId("number").value) - 1;
  if (Number.isInteger(index) && index >= 0 && index < items.length) go(index);
  else { byId("number").value = current + 1; say(`There are trajectories 1 to ${items.length}.`); }
});
wire("file", "change", async () => {
  await importAll([...byId("file").files]);
  byId("file").value = "";
});
watch(tick, keep);
followTabs((state) => {
  const here = current;
  takeUp(state);
  current = here;
  history = [];
  draw();
});

// Pictures are fitted into their panes, whatever makes those larger or smaller.
const resized = new ResizeObserver(() => redraw());
for (const pane of panes()) resized.observe(pane);

(async () => {
  await restore(takeUp);
  if (!matches(current) && show === "differ") current = seek(0, 1, matches);
  if (items.length) {
    await draw();
    moment = performance.now() / 1000;
    const left = items.filter((_, index) => open(index)).length;
    if (labels.size) say(`Taken up again at trajectory ${current + 1}; ${left} undecided.`);
  }
  document.documentElement.dataset.ready = "yes";
})();
