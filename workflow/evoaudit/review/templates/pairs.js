// One pair is on the page at a time, so a thousand of them cost no more than one.
const REASONS = data.reasons.map(([code]) => code), WORDS = new Map(data.reasons);
const SHOWS = ["all", "undecided", "reject", "accept", "disputed"];
const SLOTS = ["start", "successor", "distractor"];
// Changes that can be undone.
const UNDO = 1000;
// Lines longer than this are no decisions.
const LONGEST = 65536;

const given = new Map(Object.entries(data.decisions));
const carried = new Map(data.carried.map((line) => [line.instance_id, line]));
// What was changed here: id → line, or null where a decision was taken back.
let changed = new Map(), disputed = new Map(), seconds = new Map(), drafts = new Map();
let reviewer = "", tier = "all", show = "all";
let history = [];
let view = "three", chosen = 0, blinked = false, outlined = false, wanting = false;

const decisionOf = (id) => changed.has(id) ? changed.get(id) : given.get(id) || null;
const stateOf = (id) => disputed.has(id) ? "disputed" : (decisionOf(id) || {decision: "undecided"}).decision;
const word = (tier) => tier.replaceAll("_", " ");
const words = (line) => line.decision === "accept" ? "accepted" : "rejected: " + (WORDS.get(line.reason) || line.reason);

// ---- keeping

function keep() {
  store({
    changed: [...changed], disputed: [...disputed], seconds: [...seconds].map(([id, n]) => [id, Math.round(n * 10) / 10]), drafts: [...drafts],
    carried: [...carried.values()], reviewer, current: items.length ? items[current].id : "", unexported,
  });
}

function takeUp(state) {
  const known = (pairs) => pairs.filter(([id]) => place.has(id));
  changed = new Map(known(state.changed));
  disputed = new Map(known(state.disputed));
  seconds = new Map(known(state.seconds));
  drafts = new Map(known(state.drafts));
  for (const line of state.carried) if (!carried.has(line.instance_id)) carried.set(line.instance_id, line);
  reviewer = String(state.reviewer);
  unexported = Boolean(state.unexported);
  current = place.get(state.current) ?? 0;
}

// ---- time

function tick() {
  passed((spent) => {
    const id = items[current].id;
    seconds.set(id, (seconds.get(id) ?? secondsBefore(id)) + spent);
  });
}
const secondsBefore = (id) => (given.get(id) || {}).seconds || 0;

// ---- moving

const matches = (index) => (tier === "all" || items[index].tier === tier) && (show === "all" || stateOf(items[index].id) === show);
function go(index) {
  if (index < 0 || index >= items.length) return;
  tick();
  current = index;
  blinked = wanting = false;
  chosen = 0;
  draw();
  keep();
  const item = items[index];
  say(`Pair ${index + 1}, ${word(item.tier)}, ${stateWords(item.id)}`);
  scrollTo(0, 0);
}

function step(by) {
  const index = seek(current + by, by, matches);
  if (index < 0) say(by > 0 ? "This is the last pair shown here." : "This is the first pair shown here.");
  else go(index);
}

const open = (index) => ["undecided", "disputed"].includes(stateOf(items[index].id));
function nextOpen() {
  const inTier = (index) => open(index) && (tier === "all" || items[index].tier === tier);
  let index = seek(current + 1, 1, inTier);
  if (index < 0) index = seek(0, 1, inTier);
  if (index < 0) {
    const left = items.filter((_, index) => open(index)).length;
    say(left ? `Nothing undecided in this tier; ${left} in others.` : "Every pair is decided. Export with s.");
  } else go(index);
}

// ---- deciding

// Changes made together are undone together.
function change(lines) {
  history.push(lines.map(([id]) => ({id, line: changed.has(id) ? changed.get(id) : undefined, disputed: disputed.get(id)})));
  if (history.length > UNDO) history.shift();
  for (const [id, line] of lines) {
    changed.set(id, line);
    disputed.delete(id);
  }
  unexported = true;
}

function decide(decision, reason) {
  tick();
  const id = items[current].id, before = stateOf(id), note = byId("note").value.trim();
  if (reason === "other" && !note) {
    wanting = true;
    draw();
    byId("note").focus();
    say("Say in a few words what is wrong; Enter saves.");
    return;
  }
  wanting = false;
  drafts.delete(id);
  const line = {instance_id: id, decision, reason: decision === "accept" ? null : reason, note, set: data.set};
  if (reviewer) line.reviewer = reviewer;
  // What is wrong with two screens is wrong with them beside any distractor.
  const others = decision === "reject" && reason !== "other" ? items[current].same.filter((index) => stateOf(items[index].id) === "undecided") : [];
  change([[id, line], ...others.map((index) => [items[index].id, {...line, instance_id: items[index].id}])]);
  const also = others.length ? `, and ${others.map((index) => index + 1).join(", ")} with the same two screens` : "";
  const told = `Pair ${current + 1} ${words(line)}${also}.`;
  const waiting = before === "undecided" || before === "disputed";
  draw();
  if (waiting) nextOpen();
  keep();
  say(waiting && items.some((_, index) => open(index)) ? `${told} Now pair ${current + 1}, ${word(items[current].tier)}.`
    : items.some((_, index) => open(index)) ? told : `${told} Every pair is decided. Export with s.`);
}

function saveNote() {
  const id = items[current].id, note = byId("note").value.trim(), line = decisionOf(id);
  if (wanting) return;
  if (!line) {
    if (note) drafts.set(id, note); else drafts.delete(id);
  } else if (note !== (line.note || "")) {
    if (line.reason === "other" && !note) {
      byId("note").value = line.note;
      say("“other” needs a note; the old one stays.");
      return;
    }
    change([[id, {...line, note, set: data.set, ...(reviewer ? {reviewer} : {})}]]);
    draw();
    say("Note saved.");
  }
  keep();
}

function undo() {
  const last = history.pop();
  if (!last) return say("Nothing to undo.");
  for (const {id, line, disputed: before} of last) {
    if (line === undefined) changed.delete(id); else changed.set(id, line);
    if (before) disputed.set(id, before); else disputed.delete(id);
  }
  unexported = true;
  go(place.get(last[0].id));
  say(`Undone: pair ${current + 1} is ${stateWords(last[0].id)}.`);
}

function takeBack() {
  const id = items[current].id;
  if (!decisionOf(id)) return say("This pair is not decided.");
  change([[id, null]]);
  draw();
  keep();
  say(`Pair ${current + 1} is undecided again.`);
}

function stateWords(id) {
  if (disputed.has(id)) return "disputed: " + disputed.get(id).map((line) => `${line.reviewer || "somebody"} ${words(line)}`).join("; ");
  const line = decisionOf(id);
  return line ? words(line) : "undecided";
}

// ---- files

function lines() {
  tick();
  const found = [];
  for (const item of items) {
    const line = disputed.has(item.id) ? null : decisionOf(item.id);
    if (!line) continue;
    const spent = seconds.get(item.id) ?? line.seconds ?? 0;
    const row = {instance_id: item.id, decision: line.decision, reason: line.reason || null, note: line.note || ""};
    row.seconds = Math.round(spent * 10) / 10;
    if (line.reviewer) row.reviewer = line.reviewer;
    row.set = line.set || data.set;
    found.push(row);
  }
  return [...found, ...carried.values()];
}

function exportFile() {
  const all = lines();
  if (!all.length) return say("Nothing is decided yet.");
  const who = reviewer.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  const name = `${data.set}${who ? "-" + who : ""}.jsonl`;
  save(name, all);
  unexported = false;
  keep();
  const left = items.filter((_, index) => open(index)).length;
  say(`${name}: ${all.length} decisions${left ? `, ${left} pairs are still undecided` : ""}. Name the file in probes.t3.reviewed.`);
}

// What is refused is what `evoaudit mine` refuses, too.
function parse(text) {
  return parseLines(text, LONGEST, "decision", (line, fault) => {
    if (typeof line.instance_id !== "string" || !line.instance_id) fault("no decision on a pair");
    if (!["accept", "reject"].includes(line.decision)) fault("neither accept nor reject");
    for (const name of ["reason", "note", "reviewer", "set"]) {
      if (line[name] !== undefined && line[name] !== null && typeof line[name] !== "string") fault(`${name} is not text`);
    }
    const spent = line.seconds ?? null;
    if (spent !== null && !(Number.isFinite(spent) && spent >= 0 && spent < 1e9)) fault("no number of seconds");
    let reason = (line.reason ?? "").trim().toLowerCase().replace(/[\s_-]+/g, "_") || null;
    if (line.decision === "reject") reason ??= "other";
    if (line.decision === "accept" && reason) fault("an accepted pair has no reason");
    if (reason && !REASONS.includes(reason)) fault("a reason that is not known");
    const row = {instance_id: line.instance_id, decision: line.decision, reason, note: (line.note ?? "").slice(0, 2000)};
    if (spent !== null) row.seconds = spent;
    for (const name of ["reviewer", "set"]) if (line[name]) row[name] = line[name].slice(0, 200);
    return row;
  });
}

async function load(files) {
  const told = await importFiles(files, (text) => take(parse(text)));
  draw();
  keep();
  say(told);
}

// Take another file's lines: what agrees is kept, what contradicts is put before the reviewer again.
function take(found) {
  if (!found.length) throw new Error("it holds no decision");
  if (!found.some((line) => place.has(line.instance_id))) {
    throw new Error(`it was exported from another set of pairs${found[0].set ? ` (${found[0].set})` : ""}; none of them is here`);
  }
  let taken = 0, contrary = 0, elsewhere = 0;
  for (const line of found) {
    const id = line.instance_id, own = decisionOf(id);
    if (!place.has(id)) {
      elsewhere += 1;
      if (!carried.has(id)) carried.set(id, line);
    } else if (disputed.has(id)) {
      const said = disputed.get(id);
      if (!said.some((other) => other.reviewer === line.reviewer && other.decision === line.decision)) disputed.set(id, [...said, line]);
      contrary += 1;
    } else if (!own) {
      change([[id, line]]);
      if (line.seconds && !seconds.has(id)) seconds.set(id, line.seconds);
      taken += 1;
    } else if (own.decision !== line.decision) {
      history.push([{id, line: changed.has(id) ? changed.get(id) : undefined, disputed: undefined}]);
      disputed.set(id, [own, line]);
      contrary += 1;
    }
  }
  unexported = true;
  const parts = [`${taken} decisions taken`];
  if (contrary) parts.push(`${contrary} contradict and are disputed now`);
  if (elsewhere) parts.push(`${elsewhere} on pairs that are not here are exported along`);
  return parts.join(", ");
}

// ---- drawing

function marks(frame, item, slot) {
  if (slot === "start" && item.mark && !blinked) {
    showMark(frame, item.mark);
  }
  if (outlined && item.change && (slot === "successor" || (slot === "start" && blinked))) {
    showTiles(frame, item.change);
  }
}

function drawScreens() {
  const item = items[current], tall = item.change ? `${item.change.tiles} tiles changed` : "";
  const stage = byId("stage");
  document.body.classList.toggle("close", view !== "three");
  stage.className = "stage " + (view === "three" ? "three" : "one" + (view === "full" ? " full" : "")) + (blinked ? " blinked" : "");
  SLOTS.forEach((slot, index) => {
    const figure = byId("figure-" + slot), frame = figure.querySelector(".frame");
    const from = index === 0 && blinked ? 1 : index, shot = item.pictures[from];
    const label = ["Start", "Logged successor", `Distractor (${word(item.tier)})`][from];
    figure.classList.toggle("chosen", index === chosen);
    figure.querySelector(".label").textContent = label;
    figure.querySelector(".about").textContent = ["", tall, item.distractor][from];
    const ground = item.pictures[index] || shot || {width: 16, height: 10};
    frame.style.setProperty("--ratio", ground.width / ground.height);
    frame.style.setProperty("--full", ground.width + "px");
    frame.replaceChildren();
    showPicture(frame, shot, `${label} of pair ${current + 1}`, "this picture cannot be shown");
    marks(frame, item, slot);
  });
  byId("blink").setAttribute("aria-pressed", blinked);
  byId("outline").setAttribute("aria-pressed", outlined);
  put("view", {three: blinked ? "the successor stands in the start’s place" : "", one: "one screen, fitted", full: "one screen, full size"}[view]);
}

function drawCounts() {
  const count = {accept: 0, reject: 0, undecided: 0, disputed: 0}, tiers = new Map(data.tiers.map((name) => [name, [0, 0]]));
  for (const item of items) {
    const state = stateOf(item.id), tally = tiers.get(item.tier);
    count[state] += 1;
    tally[1] += 1;
    if (state === "accept" || state === "reject") tally[0] += 1;
  }
  const done = count.accept + count.reject;
  byId("bar").value = done;
  const contrary = count.disputed ? `, ${count.disputed} disputed` : "";
  put("counts", `${done} of ${items.length} decided: ${count.accept} accepted, ${count.reject} rejected${contrary}`);
  put("tiers", [...tiers].map(([name, [some, all]]) => `${word(name)} ${some}/${all}`).join(" · "));
  let n = 0;
  for (let index = 0; index < items.length; index++) n += matches(index);
  put("matching", tier === "all" && show === "all" ? "" : `${n} match${matches(current) ? "" : ", not this one"}`);
}

function draw() {
  if (!items.length) return;
  const item = items[current], line = decisionOf(item.id), state = stateOf(item.id);
  byId("number").value = current + 1;
  put("tag", word(item.tier));
  byId("state").className = "state " + state;
  put("state", stateWords(item.id));
  put("where", item.where + (item.simulated ? " · simulated" : ""));
  put("op", item.op);
  put("value", item.value);
  put("target", item.target);
  byId("target-word").hidden = byId("target").parentElement.hidden = !item.target;
  put("goal", item.goal || "none logged");
  put("step", item.step);
  put("url", item.url || "none logged");
  put("raw", item.raw || "none logged");
  put("identity", item.id);
  const others = byId("others");
  others.hidden = !item.same.length;
  others.replaceChildren("The same two screens are in ");
  item.same.forEach((index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `pair ${index + 1} (${word(items[index].tier)}, ${stateWords(items[index].id)})`;
    button.addEventListener("click", () => go(index));
    others.append(button, " ");
  });
  for (const button of byId("buttons").querySelectorAll("button")) {
    const meant = line && state !== "disputed" && button.dataset.decision === line.decision;
    button.setAttribute("aria-pressed", Boolean(meant) && (button.dataset.reason || null) === (line.reason || null));
  }
  const note = byId("note");
  if (!wanting) note.value = line ? line.note || "" : drafts.get(item.id) || "";
  note.classList.toggle("wanted", wanting);
  byId("reviewer").value = reviewer;
  byId("tier").value = tier;
  byId("show").value = show;
  byId("undo").disabled = !history.length;
  byId("clear").disabled = !line;
  drawCounts();
  drawScreens();
  const index = seek(current + 1, 1, matches);
  if (index >= 0) for (const shot of items[index].pictures) if (shot) new Image().src = shot.src;
  document.title = `${current + 1} of ${items.length} · T3 pairs`;
}

// ---- looking closer

function blink() {
  if (view !== "three" && chosen !== 0) chosen = 0;
  blinked = !blinked;
  drawScreens();
  say(blinked ? "successor" : "start");
}

function alone(slot) {
  if (view === "three") view = "one";
  chosen = slot === 2 ? 2 : 0;
  blinked = slot === 1;
  drawScreens();
  say(SLOTS[slot]);
}

function zoom() {
  view = {three: "one", one: "full", full: "three"}[view];
  if (view === "three") chosen = 0;
  drawScreens();
  if (view === "full") byId("screens").focus({focusVisible: false});
}

function refilter() {
  drawCounts();
  byId("tier").value = tier;
  byId("show").value = show;
  if (!matches(current)) {
    let index = seek(current, 1, matches);
    if (index < 0) index = seek(current, -1, matches);
    if (index >= 0) go(index);
  }
  let n = 0;
  for (let index = 0; index < items.length; index++) n += matches(index);
  say(`${n} pairs: ${tier === "all" ? "every tier" : word(tier)}, ${{reject: "rejected", accept: "accepted"}[show] || show}`);
}

const KEYS = {
  a: () => decide("accept", null),
  j: () => step(1), ArrowRight: () => step(1), k: () => step(-1), ArrowLeft: () => step(-1),
  Home: () => go(seek(0, 1, matches)), End: () => go(seek(items.length - 1, -1, matches)),
  n: nextOpen, u: undo, x: takeBack, b: blink, z: zoom,
  o: () => { outlined = !outlined; drawScreens(); say(outlined ? "changed tiles shown" : "changed tiles hidden"); },
  q: () => alone(0), w: () => alone(1), e: () => alone(2),
  m: () => byId("note").focus(), r: () => byId("reviewer").focus(),
  g: () => { byId("number").focus(); byId("number").select(); },
  t: () => { tier = cycle(["all", ...data.tiers], tier); refilter(); },
  f: () => { show = cycle(SHOWS, show); refilter(); },
  s: exportFile, i: () => byId("file").click(), "?": toggleHelp,
  Escape: () => { [view, chosen, blinked] = ["three", 0, false]; drawScreens(); },
};
REASONS.forEach((reason, index) => { KEYS[index + 1] = () => decide("reject", reason); });
const MOVES = ["ArrowLeft", "ArrowRight", "Home", "End"];

addEventListener("keydown", (event) => {
  tick();
  if (event.altKey || event.isComposing || !restored) return;
  const box = event.target.closest("input, textarea, select");
  if (event.ctrlKey || event.metaKey) {
    if (event.key === "z" && !event.shiftKey && !box && items.length) {
      event.preventDefault();
      undo();
    }
    return;
  }
  // A list keeps its arrows, but its letters are no search: it holds few words.
  if (box && !(box.tagName === "SELECT" && event.key.length === 1 && event.key !== " ")) return typing(event, box, leave);
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (help.open) {
    if (key === "?") { event.preventDefault(); help.close(); }
    return;
  }
  if (view === "full" && MOVES.includes(key)) return; // these scroll the picture
  if (!KEYS[key] || (event.repeat && !MOVES.includes(key) && key !== "j" && key !== "k") || (!items.length && key !== "?")) return;
  event.preventDefault();
  KEYS[key]();
});

// Say whether a box may be left.
function leave(box, entered) {
  if (box.id !== "note" || !wanting) return true;
  if (!entered) {
    wanting = false;
    draw();
  } else if (!box.value.trim()) {
    return false;
  } else {
    decide("reject", "other");
  }
  return true;
}

// ---- wiring

for (const reason of REASONS) {
  const button = document.createElement("button"), key = document.createElement("kbd");
  button.type = "button";
  button.className = "reject";
  button.dataset.decision = "reject";
  button.dataset.reason = reason;
  key.textContent = REASONS.indexOf(reason) + 1;
  button.append(WORDS.get(reason), " ", key);
  if (items.length) byId("buttons").append(button);
}

for (const name of ["all", ...data.tiers]) if (items.length) byId("tier").append(new Option(word(name), name));
wire("buttons", "click", (event) => {
  const button = event.target.closest("button");
  if (button) decide(button.dataset.decision, button.dataset.reason || null);
});
for (const button of document.querySelectorAll(".large")) button.addEventListener("click", () => alone(Number(button.dataset.slot)));
for (const frame of document.querySelectorAll(".frame")) frame.addEventListener("click", blink);
wire("previous", "click", () => step(-1));
wire("next", "click", () => step(1));
wire("undecided", "click", nextOpen);
wire("undo", "click", undo);
wire("clear", "click", takeBack);
wire("blink", "click", blink);
wire("outline", "click", KEYS.o);
wire("zoom", "click", zoom);
wire("export", "click", exportFile);
wire("import", "click", () => byId("file").click());
wire("help-open", "click", toggleHelp);
wire("file", "change", async () => {
  await load([...byId("file").files]);
  byId("file").value = "";
});
wire("note", "change", saveNote);
wire("reviewer", "change", () => { reviewer = byId("reviewer").value.trim(); keep(); });
wire("number", "change", () => {
  const index = Number(byId("number").value) - 1;
  if (Number.isInteger(index) && index >= 0 && index < items.length) go(index);
  else { byId("number").value = current + 1; say(`There are pairs 1 to ${items.length}.`); }
});
wire("tier", "change", () => { tier = byId("tier").value; refilter(); });
wire("show", "change", () => { show = byId("show").value; refilter(); });
watch(tick, keep);
followTabs((state) => {
  const here = current;
  takeUp(state);
  current = here;
  history = [];
  draw();
});

restore(takeUp).then(() => {
  if (items.length) {
    draw();
    moment = performance.now() / 1000;
    const left = items.filter((_, index) => open(index)).length;
    if (changed.size) say(`Taken up again at pair ${current + 1}; ${left} undecided.`);
  }
  document.documentElement.dataset.ready = "yes";
});
