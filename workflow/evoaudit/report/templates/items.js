// Texts from logs and models only ever become text nodes.
const FOLDER = "data", FILE = /^(index|(scores|part)-\d+)$/, GONE = ": copy the whole folder of the report";
const ROWS = 40, SHEETS = 100, SHORT = 110;
// Character of an outcome → words; in the order in which answers are listed.
const WORDS = new Map([["1", "right"], ["a", "action right, value wrong"], ["0", "wrong"], ["x", "unusable"], ["-", "no answer"]]);
const RANK = new Map([...WORDS.keys()].map((code, place) => [code, place]));
// What a model's answer may be asked to be → the characters that are it.
const IS = new Map([
  ["wrong", ["0ax", "wrong"]], ["right", ["1", "right"]], ["value", ["a", "right in action, wrong in value"]], ["unusable", ["x", "unusable"]],
  ["unanswered", ["-", "without an answer"]],
]);
const OUTCOMES = new Map([
  ["wrong-by-all", [1, "Wrong by all"]], ["right-by-all", [2, "Right by all"]], ["split", [4, "Split decisions"]],
  ["unusable", [8, "Unusable by some"]], ["unanswered", [16, "Unanswered by some"]],
]);
const TASKS = {
  1: ["T1", "In which order were these screens seen?"], 2: ["T2", "Which action led from the first screen to the second?"],
  3: ["T3", "Which screen, A or B, follows from the first?"],
};
// The set without a name, which the leaderboard counts; no other can be called so.
const PAPER = "-", LEADERBOARD = "leaderboard";
const KINDS = {cross: "cross-trajectory", same_domain: "same domain", long_skip: "long skip"};
const PLAIN = {item: "", task: "", kind: "", domain: "", source: "", set: "", q: "", as: "", filter: "", model: "", is: "", model2: "", is2: "", sort: ""};

let index = null, state = {...PLAIN}, found = [], drawn = "", begun = 0, shown = 0, opening = 0;
// Ways of asking that are loaded: outcomes by model, tallies and flags by item.
const asked = new Map();
let ids = [], places = new Map(), lower = [];

const byId = (id) => document.getElementById(id);
const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many || one + "s"}`;

function make(tag, attributes, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === undefined || value === null) continue;
    if (name === "class") node.className = value; else node.setAttribute(name, value);
  }
  node.append(...inside.filter((one) => one !== null && one !== undefined && one !== ""));
  return node;
}

function complain(error) {
  byId("fault").textContent = error.message;
  byId("fault").hidden = false;
}

// ---- the address

function read() {
  const given = new URLSearchParams(location.hash.slice(1)), next = {...PLAIN};
  for (const name of Object.keys(PLAIN)) next[name] = given.get(name) || "";
  // A filter may name outcomes and kinds of question: long-skip, or wrong-by-all,long_skip.
  const kept = [];
  for (const word of next.filter.split(",")) {
    const kind = index.kinds.find((one) => one === word || one === word.replaceAll("-", "_"));
    if (OUTCOMES.has(word)) kept.push(word); else if (word && kind) next.kind = kind;
  }
  next.filter = kept[0] || "";
  for (const [model, is] of [["model", "is"], ["model2", "is2"]]) {
    if (!index.models.some((one) => one.slug === next[model])) next[model] = "";
    next[is] = next[model] ? (IS.has(next[is]) ? next[is] : model === "model" ? "wrong" : "right") : "";
  }
  if (!groupsByName.get(next.as)) next.as = "";  // unknown, or the first, which needs no name
  return next;
}

function address(of) {
  const words = new URLSearchParams();
  for (const name of Object.keys(PLAIN)) if (of[name]) words.set(name, of[name]);
  return "#" + words.toString();
}

// Change what is shown: as a new place in the history, or in place of this one.
function go(changes, instead = false) {
  const next = {...state, ...changes};
  const to = address(next);
  if (instead) {
    history.replaceState(null, "", to);
    return apply();
  }
  if (to === (location.hash || "#")) return apply();
  location.hash = to;  // `hashchange` does the rest
  return undefined;
}

// ---- outcomes

let groupsByName = new Map();
const groupName = (group) => `${group.condition}-${group.side}`;
const groupNow = () => groupsByName.get(state.as) ?? 0;
// Solvers that understand nothing are counted only where there is nobody else.
const people = (places) => { const some = places.filter((model) => !index.models[model].baseline); return some.length ? some : places; };

async function outcomesOf(place) {
  if (asked.has(place) || !index.groups.length) return asked.get(place);
  const texts = await load(`scores-${place}`);
  const n = ids.length, group = index.groups[place], by = new Map();
  group.models.forEach((model, row) => by.set(index.models[model].slug, texts[row]));
  const counted = people(group.models);
  const right = new Uint16Array(n), answered = new Uint16Array(n), all = new Uint16Array(n), flags = new Uint8Array(n);
  for (const model of counted) {
    const text = by.get(index.models[model].slug);
    for (let item = 0; item < n; item++) {
      const code = text.charCodeAt(item);
      if (code === 32) continue;
      all[item]++;
      if (code === 45) { flags[item] |= 16; continue; }
      answered[item]++;
      if (code === 49) right[item]++;
      if (code === 120) flags[item] |= 8;
    }
  }
  for (let item = 0; item < n; item++) {
    const a = answered[item], r = right[item];
    if (!a) continue;
    if (!r) flags[item] |= 1;
    if (r === a) flags[item] |= 2;
    if (a > 1 && 3 * r >= a && 3 * (a - r) >= a) flags[item] |= 4;
  }
  asked.set(place, {by, right, answered, all, flags});
  return asked.get(place);
}

// ---- filters

function compute() {
  const one = asked.get(groupNow()), n = ids.length, words = state.q.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length ? lower.map((goal) => words.every((word) => goal.includes(word))) : null;
  const kind = state.kind ? index.kinds.indexOf(state.kind) : -1, domain = state.domain ? index.domains.indexOf(state.domain) : -1;
  const source = state.source ? index.sources.indexOf(state.source) : -1, set = state.set ? index.sets.indexOf(state.set === PAPER ? "" : state.set) : -1;
  const task = state.task.replace(/^t/i, "");
  const wanted = state.filter ? OUTCOMES.get(state.filter)[0] : 0;
  const column = (slug) => (slug && one ? one.by.get(slug) || " ".repeat(n) : "");
  const first = column(state.model), second = column(state.model2);
  const fits = [state.is, state.is2].map((is) => (is ? IS.get(is)[0] : ""));
  const counts = [...OUTCOMES.keys()].map(() => 0), bits = [...OUTCOMES.values()].map(([bit]) => bit);
  const by = [{}, {}];
  let all = 0;
  found = [];
  for (let item = 0; item < n; item++) {
    if (task && index.tasks[item] !== task) continue;
    if (state.kind && index.kind[item] !== kind) continue;
    if (state.domain && index.domain[item] !== domain) continue;
    if (state.source && index.source[item] !== source) continue;
    if (state.set && index.set[item] !== set) continue;
    if (hits && !(index.goal[item] >= 0 && hits[index.goal[item]]) && !(words.length === 1 && ids[item].includes(words[0]))) continue;
    const inFirst = !first || fits[0].includes(first[item]), inSecond = !second || fits[1].includes(second[item]);
    const flags = one ? one.flags[item] : 0, inOutcome = !wanted || (flags & wanted) !== 0;
    if (inOutcome && first && inSecond) by[0][first[item]] = (by[0][first[item]] || 0) + 1;
    if (inOutcome && second && inFirst) by[1][second[item]] = (by[1][second[item]] || 0) + 1;
    if (!inFirst || !inSecond) continue;
    all++;
    for (let place = 0; place < bits.length; place++) if (flags & bits[place]) counts[place]++;
    if (inOutcome) found.push(item);
  }
  if (one && sortNow() !== "mined") {
    const share = (item) => (one.answered[item] ? one.right[item] / one.answered[item] : 2);
    const key = {hard: share, easy: (item) => (one.answered[item] ? -share(item) : 2)}[sortNow()]
      || ((item) => (one.answered[item] ? Math.abs(2 * one.right[item] - one.answered[item]) / one.answered[item] : 2));
    const keys = new Map(found.map((item) => [item, key(item)]));
    found.sort((a, b) => keys.get(a) - keys.get(b) || one.answered[b] - one.answered[a] || a - b);
  }
  return {all, counts, by};
}

function drawCounts({all, counts, by}) {
  const total = ids.length;
  byId("matching").textContent = found.length === total ? count(total, "item") : `${found.length.toLocaleString("en")} of ${count(total, "item")}`;
  byId("print-all").disabled = !found.length;
  byId("print-all").textContent = found.length > SHEETS ? `Print the first ${SHEETS}` : "Print these";
  const buttons = byId("outcomes").children;
  [["", [0, "All"]], ...OUTCOMES].forEach(([name, [, words]], place) => {
    buttons[place].textContent = `${words} ${(place ? counts[place - 1] : all).toLocaleString("en")}`;
    buttons[place].setAttribute("aria-pressed", String(state.filter === name));
  });
  const group = index.groups[groupNow()], models = group ? people(group.models) : [];
  byId("counted").textContent = models.length === 1 ? `One model was asked this way, ${index.models[models[0]].name}: “by all” is that one.`
    : `${models.length.toLocaleString("en")} models were asked this way.`;
  for (const [place, id] of ["is", "is2"].entries()) {
    byId(id).disabled = !state[place ? "model2" : "model"];
    [...IS.values()].forEach(([codes, words], option) => {
      const n = [...codes].reduce((sum, code) => sum + (by[place][code] || 0), 0);
      byId(id).options[option].textContent = state[place ? "model2" : "model"] ? `${words} (${n.toLocaleString("en")})` : words;
    });
  }
}

function drawControls() {
  const values = {
    question: state.kind && state.task ? `${state.task}/${state.kind}` : state.kind ? questionOf(state.kind) : state.task,
    domain: state.domain, source: state.source, set: state.set, as: state.as, sort: sortNow(), model: state.model, is: state.is || "wrong",
    model2: state.model2, is2: state.is2 || "right",
  };
  for (const [id, value] of Object.entries(values)) byId(id).value = value;
  if (document.activeElement !== byId("q")) byId("q").value = state.q;
}

const sortNow = () => (["mined", "split", "hard", "easy"].includes(state.sort) ? state.sort : state.filter === "split" ? "split" : "mined");
const questionOf = (kind) => [...byId("question").options].map((one) => one.value).find((value) => value.endsWith(`/${kind}`)) || "";

// ---- the list

const kindOf = (item) => { const kind = index.kinds[index.kind[item]]; return KINDS[kind] || kind; };
const setOf = (item) => (index.set.length ? index.sets[index.set[item]] || LEADERBOARD : "");
const goalOf = (item) => (index.goal[item] < 0 ? "" : index.goals[index.goal[item]]);
const link = (item) => address({...state, item: ids[item]});

function bar(right, answered) {
  const node = make("span", {class: "bar", "aria-hidden": "true"}), good = make("i"), bad = make("i");
  good.style.width = `${100 * right / answered}%`;
  bad.style.width = `${100 - 100 * right / answered}%`;
  node.append(good, bad);
  return node;
}

function row(item) {
  const one = asked.get(groupNow());
  const what = make("span", {class: "what"}, make("b", {}, TASKS[index.tasks[item]][0]), ` ${kindOf(item)}`, index.domain[item] < 0 ? "" : ` · ${index.domains[index.domain[item]]}`);
  if (setOf(item)) what.append(" ", make("span", {class: "tag"}, setOf(item)));
  const score = make("span", {class: "score"});
  if (one && one.all[item]) {
    score.append(one.answered[item] ? `${one.right[item]} of ${one.answered[item]} right` : "no answers");
    if (one.answered[item]) score.append(bar(one.right[item], one.answered[item]));
  }
  const anchor = make("a", {href: link(item), "data-item": item}, what, make("span", {class: "goal-line"}, goalOf(item) || "no goal stated"), score);
  return make("li", {}, anchor);
}

// Of the list a window is on the page: rows from `top` up to `shown`.
function button(words, action) {
  const made = make("button", {type: "button", class: "more"}, words);
  made.addEventListener("click", action);
  return made;
}

function clearing() {
  const made = make("button", {type: "button"}, "Clear the filters");
  made.addEventListener("click", clear);
  return made;
}

function drawRows() {
  const some = document.createDocumentFragment(), end = Math.min(shown + ROWS, found.length);
  for (let place = shown; place < end; place++) some.append(row(found[place]));
  byId("rows").append(some);
  shown = end;
  drawRest();
}

function drawRest() {
  const rest = found.length - shown;
  byId("earlier").replaceChildren(...(begun ? [button(`${begun.toLocaleString("en")} before`, () => drawList(Math.max(0, begun - ROWS)))] : []));
  byId("rest").replaceChildren(...(rest ? [button(`${rest.toLocaleString("en")} more`, drawRows)] : []));
  if (!rest) return;
  nearing.disconnect();
  nearing.observe(byId("rest"));
}
const nearing = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) drawRows(); }, {rootMargin: "400px"});

function drawList(from = 0) {
  if (byId("side").scrollTop > byId("list").offsetTop) byId("side").scrollTop = 0;
  byId("rows").replaceChildren();
  byId("rows").start = from + 1;
  begun = shown = from;
  drawRows();
  if (!found.length) byId("rest").replaceChildren(make("p", {class: "more"}, ids.length ? "No item is like this. " : "No items were mined in this run.", ids.length ? clearing() : ""));
}

// The row of a place among those found, if it is on the page.
const rowAt = (place) => byId("rows").children[place - begun]?.firstChild;

function markRow(item) {
  const place = found.indexOf(item);
  if (place >= 0 && (place < begun || place >= shown + ROWS)) drawList(Math.max(0, place - 5));
  if (place >= shown) drawRows();
  for (const anchor of byId("rows").querySelectorAll("[aria-current]")) anchor.removeAttribute("aria-current");
  if (place < 0) return;
  const anchor = rowAt(place);
  anchor.setAttribute("aria-current", "true");
  anchor.scrollIntoView({block: "nearest"});
}

// ---- an item

function partOf(item) {
  let place = 0;
  while (place + 1 < index.parts.length && index.parts[place + 1] <= item) place++;
  return place;
}

function gone(words, black = false) {
  return make("p", {class: black ? "gone black" : "gone"}, words);
}

function shot(part, place, label, words, good, eager, black) {
  const [file, width, height, id, why] = part.pictures[place];
  const figure = make("figure", {class: good === 1 ? "right" : false});
  const caption = make("figcaption", {}, make("b", {}, label), words ? `: ${words}` : "");
  let picture;
  if (black) {
    picture = gone("a black picture of the same size", true);
  } else if (file === null) {
    picture = gone({
      over_max_pictures_mb: `left out: this report takes ${index.pictures.mb} MB of pictures along`, not_prepared: "this picture was not prepared",
      not_an_image: "what was prepared is no picture",
    }[why] || "missing");
  } else {
    const image = make("img", {alt: `${label}${words ? ", " + words : ""}`, width, height, loading: eager ? "eager" : "lazy", decoding: "async", src: `pictures/${file}`});
    picture = make("a", {href: `pictures/${file}`, target: "_blank", rel: "noopener"}, image);
    image.addEventListener("error", () => picture.replaceWith(gone("the picture’s file is missing")));
  }
  figure.append(picture, caption);
  return figure;
}

function shots(part, item, one, ask, eager) {
  const group = ask ? index.groups[ask.group] : null, kind = group ? group.pictures : "own";
  if (kind === "none") return make("p", {class: "answer soft"}, "No pictures were shown. The log’s own are shown with other conditions.");
  const node = make("div", {class: "shots"});
  if (kind === "other") {
    if (!ask.lent) return make("p", {class: "answer soft"}, "No other item has as many pictures to lend.");
    ask.lent.forEach((place, number) => node.append(shot(part, place, one.frames[number][1], "of another item", -1, eager, false)));
    // An id has the name of its set before it, where it is of a further one.
    const set = ids[item].slice(0, ids[item].length - index.ids[item].length);
    const from = make("a", {href: address({...state, item: set + ask.lender})}, "the item they are of");
    return make("div", {}, node, make("p", {class: "answer soft"}, "These pictures were lent: ", from, "."));
  }
  const frames = kind === "last" ? one.frames.slice(-1) : one.frames;
  for (const [place, label, words, good] of frames) node.append(shot(part, place, label, words, good, eager, kind === "black"));
  const side = index.pictures.side;
  if (!group || kind === "black" || !side || side === group.side) return node;
  return make("div", {}, node, make("p", {class: "soft"}, `The pictures here are those of ${side} px; asked this way, models saw the same screens at up to ${group.side} px.`));
}

function raw(text) {
  if (text.length <= SHORT && !text.includes("\n")) return make("code", {}, text);
  const node = make("details", {}, make("summary", {}, `${text.slice(0, 60).replaceAll("\n", " ")}… (${count(text.length, "character")})`));
  node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(make("pre", {}, text)); });
  return node;
}

function answers(part, ask, task) {
  // Solvers that understand nothing come last.
  const base = (one) => Number(index.models[one[0]].baseline);
  const rows = ask.answers.slice().sort((a, b) => base(a) - base(b) || RANK.get(a[2]) - RANK.get(b[2]) || a[0] - b[0] || a[1] - b[1]);
  const several = new Set(rows.filter((one) => one[1] > 0).map((one) => one[0]));
  const sure = rows.some((one) => one[4] !== null), tau = task === "1";
  const heads = ["Model", "Outcome", "Parsed answer", ...(sure ? ["Confidence"] : []), ...(tau ? ["Kendall’s τ"] : []), "Raw answer"];
  const body = make("tbody");
  for (const [place, run, code, answer, confidence, order, said, why] of rows) {
    const model = index.models[place];
    const name = make("th", {scope: "row"}, make("a", {href: address({...PLAIN, model: model.slug, is: "wrong"}), title: "what this model got wrong"}, make("bdi", {}, model.name)), several.has(place) ? ` (${run + 1})` : "");
    if (model.simulated) name.append(" ", make("span", {class: "tag sim"}, "simulated"));
    if (model.page) name.append(" ", make("a", {href: model.page, "aria-label": `page of ${model.name}`}, "↗"));
    const good = code === "1" ? "good" : code === "-" || code === " " ? "soft" : "bad";
    const last = make("td", {class: "said"}, said < 0 ? "" : raw(part.texts[said]), why < 0 ? "" : make("span", {class: "soft"}, (said < 0 ? "" : " ") + part.texts[why]));
    const number = (value) => make("td", {class: "num"}, value === null ? "" : value.toFixed(2).replace("-", "−"));
    const line = make("tr", {class: [model.baseline ? "base" : "", [state.model, state.model2].includes(model.slug) ? "chosen" : ""].join(" ").trim() || false},
      name, make("td", {class: `out ${good}`}, WORDS.get(code) || "not asked"), make("td", {}, part.texts[answer]));
    if (sure) line.append(number(confidence));
    if (tau) line.append(number(order));
    line.append(last);
    body.append(line);
  }
  const head = make("tr", {}, ...heads.map((words) => make("th", {scope: "col", class: /Confidence|τ/.test(words) ? "num" : false}, words)));
  return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Every model’s answer"}, make("table", {}, make("thead", {}, head), body));
}

// Counts as in the list: each model by its first answer, shares of those that answered.
function tally(ask) {
  const counted = new Set(people(ask.answers.map((one) => one[0]))), first = new Map();
  let all = 0;
  for (const [model, run, code] of ask.answers) {
    if (!counted.has(model) || code === " ") continue;
    all++;
    if (!first.has(model) || run < first.get(model)[0]) first.set(model, [run, code]);
  }
  const n = (codes) => [...first.values()].filter(([, code]) => codes.includes(code)).length;
  const parts = [first.size > n("-") ? `${n("1")} of ${count(first.size - n("-"), "model")} right` : "no answers"];
  for (const [codes, words] of [["a", "right in action alone"], ["0", "wrong"], ["x", "unusable"], ["-", "without an answer"]]) if (n(codes)) parts.push(`${n(codes)} ${words}`);
  return parts.join(", ") + (all > first.size ? `; ${all} answers: of several by one model, the first counts` : "");
}

function prompt(part, one, ask) {
  const node = make("details", {class: "prompts"}, make("summary", {}, "The prompt as sent"));
  if (!ask.prompt) {
    node.append(make("p", {class: "soft"}, "It is not known: this run’s prompt files are not the ones its answers were asked with."));
    return node;
  }
  node.addEventListener("toggle", () => {
    if (!node.open || node.children.length > 1) return;
    const words = ask.same === true ? "The sha256 of these words is the one that was recorded when they were sent."
      : ask.same === false ? "Prompt files or item have changed since: these are not quite the words that were sent."
        : "Made again from the run’s prompt files; built-in solvers are not sent any words.";
    node.append(make("p", {class: ask.same === false ? "bad" : "soft"}, words));
    for (const [role, pieces] of ask.prompt) {
      const message = make("div", {class: "prompt"}, make("p", {}, role));
      for (const piece of pieces) {
        if (Array.isArray(piece)) message.append(make("pre", {}, piece.map((place) => part.texts[place]).join("\n\n")));
        else message.append(make("p", {class: "slot"}, piece < 0 ? "a black picture" : `picture ${part.pictures[piece][3].slice(0, 12)}`));
      }
      node.append(message);
    }
  });
  return node;
}

function facts(part, item, one) {
  const list = make("dl", {class: "facts"});
  const add = (name, ...words) => list.append(make("dt", {}, name), make("dd", {}, ...words));
  add("Item", make("code", {}, make("bdi", {}, one.id)));
  add("Trajectory", make("code", {}, make("bdi", {}, one.trajectory)), one.page ? " " : "", one.page ? make("a", {href: one.page}, "step by step") : "");
  for (const [name, words] of one.from) add(name, words);
  add("Source", [one.website, index.domain[item] < 0 ? "" : index.domains[index.domain[item]], index.sources[index.source[item]]].filter((word, place, all) => word && all.indexOf(word) === place).join(" · "));
  for (const [place, label] of one.frames) {
    const [file, width, height, id] = part.pictures[place];
    add(`Picture “${label}”`, "pixels ", make("code", {}, id), file ? make("span", {}, `, as sent ${width} × ${height}, sha256 `, make("code", {}, file.replace(/\.\w+$/, ""))) : "");
  }
  return make("details", {class: "facts-box"}, make("summary", {}, "Where it is from"), list);
}

// Fill `node` with an item; on paper all of it, without what only a screen needs.
function fill(node, item, part, one, eager = false) {
  const task = index.tasks[item], [name, ask_] = TASKS[task], place = found.indexOf(item);
  const heading = make("h2", {tabindex: "-1"}, `${name} · ${kindOf(item)}`, make("span", {class: "soft"}, ` ${ask_}`));
  if (index.simulated[item] === "1") heading.append(" ", make("span", {class: "tag sim"}, "simulated"));
  if (setOf(item)) heading.append(" ", make("span", {class: "tag"}, `set ${setOf(item)}`));
  const moves = make("div", {class: "moves"});
  const move = (words, action, disabled) => {
    const made = make("button", {type: "button", disabled: disabled ? "" : false, "data-move": words.replace(/\W/g, "")}, words);
    made.addEventListener("click", action);
    moves.append(made);
    return made;
  };
  move("← All items", close).id = "close";
  move("Previous", () => step(-1), place === 0);
  move("Next", () => step(1), place === found.length - 1);
  moves.append(make("span", {class: "soft"}, place < 0 ? "not among those listed" : `${(place + 1).toLocaleString("en")} of ${found.length.toLocaleString("en")}`));
  move("Print", () => print());
  const goal = make("p", {class: "goal"}, one.goal < 0 ? make("span", {class: "soft"}, "No goal is stated in the log.") : part.texts[one.goal]);
  const body = make("div");
  const draw = (ask) => {
    body.replaceChildren(shots(part, item, one, ask, eager));
    if (one.options.length) body.append(make("ul", {class: "choices", "aria-label": "What could be answered"}, ...one.options.map(([words, right]) => make("li", {class: right ? "right" : false}, words, right ? " ✓" : "", right ? make("span", {class: "hidden"}, " (right)") : ""))));
    if (!one.options.some(([words]) => words === one.right)) body.append(make("p", {class: "answer"}, "Right: ", make("b", {class: "good"}, one.right)));
    if (!ask) {
      body.append(make("p", {class: "soft"}, "No model was asked."));
      return;
    }
    body.append(make("h3", {}, "Answers ", make("span", {class: "soft"}, tally(ask))), answers(part, ask, task), make("h3", {class: "prompts"}, "Prompt"), prompt(part, one, ask));
  };
  const now = one.asked.find((ask) => ask.group === groupNow()) || one.asked[0];
  const tabs = make("div", {class: "tabs", role: "group", "aria-label": "How it was asked"});
  for (const ask of one.asked.length > 1 ? one.asked : []) {
    const made = make("button", {type: "button", "aria-pressed": String(ask === now), "data-move": `as-${ask.group}`, title: index.groups[ask.group].shows}, groupWords(index.groups[ask.group]));
    made.addEventListener("click", () => go({as: ask.group ? groupName(index.groups[ask.group]) : ""}));
    tabs.append(made);
  }
  node.replaceChildren(make("div", {class: "head"}, heading, moves), goal, tabs, body, make("h3", {}, "Provenance"), facts(part, item, one));
  draw(now);
  return heading;
}

const groupWords = (group) => `${group.label}, ${group.side} px`;

async function show(item, focus) {
  const turn = ++opening;
  document.body.classList.toggle("open", item >= 0);
  markRow(item);
  if (item < 0) {
    byId("item").replaceChildren(...welcome());
    document.title = title;
    return;
  }
  const at = partOf(item), part = await load(`part-${at}`);
  if (turn !== opening) return;
  const within = byId("item").contains(document.activeElement) ? document.activeElement.dataset.move || "heading" : "";
  const same = byId("item").dataset.item === ids[item];
  const heading = fill(byId("item"), item, part, part.items[item - index.parts[at]]);
  document.title = `${TASKS[index.tasks[item]][0]} ${goalOf(item).slice(0, 60)} · ${title}`;
  if (!same) byId("item").scrollTop = 0;
  byId("item").dataset.item = ids[item];
  const place = found.indexOf(item);
  byId("said").textContent = `${TASKS[index.tasks[item]][0]}, ${kindOf(item)}${place < 0 ? "" : `, ${place + 1} of ${found.length}`}: ${goalOf(item).slice(0, 80)}`;
  const move = focus || within, button = move && byId("item").querySelector(`[data-move="${move}"]:not(:disabled)`);
  if (move) (button || heading).focus({preventScroll: true});
  if (document.body.classList.contains("open") && matchMedia("(max-width: 62rem)").matches) scrollTo(0, 0);
}

function welcome() {
  delete byId("item").dataset.item;
  if (state.item) return [make("div", {class: "welcome"}, make("h2", {}, "No such item"), make("p", {}, "This run has no item ", make("code", {}, make("bdi", {}, state.item)), "."))];
  if (!found.length && ids.length) {
    const asked = state.filter ? OUTCOMES.get(state.filter)[1] : "";
    return [make("div", {class: "welcome"}, make("h2", {}, asked ? `${asked}: none` : "None"), make("p", {}, `Of ${count(ids.length, "item")} none is as the filters ask.`), clearing())];
  }
  const words = ["Choose an item to see its pictures as the models saw them, its prompt and every answer. The keys j and k go through the list.",
    "“Split decisions” are items that at least a third of the models got right and at least a third got wrong, the most even first. An answer nobody can use counts as wrong; a missing one is left out."];
  const starts = index.models.length ? [["split", "Split decisions"], ["wrong-by-all", "Wrong by all"], ["right-by-all", "Right by all"]] : [];
  const links = starts.map(([filter, text]) => [address({...PLAIN, filter}), text]);
  if (index.kinds.includes("long_skip")) links.push([address({...PLAIN, kind: "long_skip"}), "Long skips: the distractor is a later screen of the same trajectory"]);
  const told = setsTold();
  const list = make("ul", {}, ...links.map(([href, text]) => make("li", {}, make("a", {href}, text))));
  return [make("div", {class: "welcome"}, make("h2", {}, count(ids.length, "item")), told ? make("p", {}, told) : "", ...words.slice(0, index.models.length ? 2 : 1).map((text) => make("p", {}, text)), list)];
}

// ---- moving

// After a change, focus is where it was: on the same button, or else on the item's heading; in the list it stays.
let wantsFocus = "";

function step(by) {
  if (!found.length) return;
  const inList = byId("rows").contains(document.activeElement);
  // With no item open, from the row that has the focus.
  const place = found.indexOf(places.get(state.item) ?? (inList ? Number(document.activeElement.dataset.item) : -1));
  let next = place < 0 ? (by > 0 ? 0 : found.length - 1) : place + by;
  if (!state.item) next = Math.min(Math.max(next, 0), found.length - 1);  // at an end, the row's own
  if (next < 0 || next >= found.length) return;
  wantsFocus = inList ? "" : document.activeElement.dataset.move || "heading";
  go({item: ids[found[next]]}, Boolean(state.item));
  if (inList) rowAt(next)?.focus();
}

const close = () => go({item: ""});

async function apply() {
  const left = state.item, box = document.activeElement && document.activeElement.closest("input, select, textarea");
  state = read();
  const before = drawn, focus = wantsFocus;
  wantsFocus = "";
  drawn = address({...state, item: ""});
  if (index.groups.length && !asked.has(groupNow())) {
    const now = drawn;
    try { await outcomesOf(groupNow()); } catch (error) { complain(error); }
    if (drawn !== now) return;
  }
  if (before !== drawn) {
    drawControls();
    drawCounts(compute());
    drawList();
  }
  try { await show(state.item ? places.get(state.item) ?? -1 : -1, focus); } catch (error) { complain(error); }
  // Whoever leaves an item, by a key or by going back, is at its row again.
  if (left && !state.item && !box) rowAt(found.indexOf(places.get(left) ?? -1))?.focus();
}

// ---- paper

async function printAll() {
  const sheets = byId("sheets"), pictures = [];
  sheets.replaceChildren();
  for (const item of found.slice(0, SHEETS)) {
    const at = partOf(item), part = await load(`part-${at}`);
    const sheet = make("div", {class: "sheet"});
    fill(sheet, item, part, part.items[item - index.parts[at]], true);
    sheets.append(sheet);
    pictures.push(...sheet.querySelectorAll("img"));
  }
  document.body.classList.add("sheets");
  sheets.hidden = false;
  await Promise.all(pictures.map((image) => image.decode().catch(() => {})));
  print();
}
let folded = [];
addEventListener("beforeprint", () => {
  // An item is to fit on a page: of long answers the beginning is printed, unless somebody has unfolded them.
  folded = [...document.querySelectorAll(".facts-box:not([open])")];
  folded.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => {
  folded.forEach((one) => { one.open = false; });
  document.body.classList.remove("sheets");
  byId("sheets").hidden = true;
  byId("sheets").replaceChildren();
});

// ---- setting up

const title = document.title;

function options(id, pairs) {
  byId(id).replaceChildren(...pairs.map(([value, words]) => make("option", {value}, words)));
}

// How many items the leaderboard counts, where there are sets beside its own.
let sizes = [];
function setsTold() {
  const own = index.sets.indexOf("");
  if (index.sets.length < 2 || own < 0) return "";
  return `${LEADERBOARD}: ${sizes[own].toLocaleString("en")}; other sets: ${(ids.length - sizes[own]).toLocaleString("en")}`;
}

function setUp() {
  const items = index.ids.length;
  sizes = index.sets.map((_, place) => index.set.filter((one) => one === place).length);
  ids = index.ids.map((id, item) => (index.set.length && index.sets[index.set[item]] ? `${index.sets[index.set[item]]}/${id}` : id));
  places = new Map(ids.map((id, item) => [id, item]));
  lower = index.goals.map((goal) => goal.toLowerCase());
  groupsByName = new Map(index.groups.map((group, place) => [groupName(group), place]));
  const select = byId("question");
  select.replaceChildren(make("option", {value: ""}, "all"));
  for (const [task, [name]] of Object.entries(TASKS)) {
    const kinds = new Set();
    for (let item = 0; item < items; item++) if (index.tasks[item] === task) kinds.add(index.kind[item]);
    if (!kinds.size) continue;
    const group = make("optgroup", {label: name}, make("option", {value: `t${task}`}, `${name}, all`));
    for (const kind of kinds) group.append(make("option", {value: `t${task}/${index.kinds[kind]}`}, `${name} · ${KINDS[index.kinds[kind]] || index.kinds[kind]}`));
    select.append(group);
  }
  const every = (words) => [["", "all"], ...words.slice().sort((a, b) => a.localeCompare(b, "en")).map((word) => [word, word])];
  options("domain", every(index.domains));
  options("source", every(index.sources));
  const sized = (place) => `${index.sets[place] || LEADERBOARD} (${sizes[place].toLocaleString("en")})`;
  options("set", [["", `all (${items.toLocaleString("en")})`], ...index.sets.map((name, place) => [name || PAPER, sized(place)])]);
  byId("sets-told").textContent = setsTold();
  options("as", index.groups.map((group, place) => [place ? groupName(group) : "", `${groupWords(group)} (${count(people(group.models).length, "model")})`]));
  options("model", [["", "any"], ...index.models.map((model) => [model.slug, model.name])]);
  options("model2", [["", "any"], ...index.models.map((model) => [model.slug, model.name])]);
  for (const id of ["is", "is2"]) options(id, [...IS].map(([value, [, words]]) => [value, words]));
  byId("source-label").hidden = index.sources.length < 2;
  byId("set-label").hidden = index.sets.length < 2;
  byId("as-label").hidden = index.groups.length < 2;
  byId("outcomes").hidden = byId("counted").hidden = byId("by-model").hidden = !index.models.length;
  byId("sort").closest("label").hidden = !index.models.length;
  for (const name of ["", ...OUTCOMES.keys()]) {
    const button = make("button", {type: "button"});
    button.addEventListener("click", () => go({filter: name}));
    byId("outcomes").append(button);
  }
  const told = [], made = index.models.filter((model) => model.simulated).length;
  if (made) told.push(`${made === index.models.length ? "All" : made} of the ${count(index.models.length, "model")} here ${made === 1 ? "is" : "are"} simulated: answers made up, which say nothing about any real model.`);
  if (index.pictures.with < items) told.push(`This report takes ${index.pictures.mb} MB of pictures along (report.max_pictures_mb): those of ${count(index.pictures.with, "item")} of ${items.toLocaleString("en")}, drawn by lot.`);
  if (index.pictures.lost) told.push(`${count(index.pictures.lost, "picture")} cannot be shown: never prepared, or no pictures.`);
  if (index.cut) told.push(`The search reads the first ${count(index.cut, "character")} of a goal.`);
  byId("notice").textContent = told.join(" ");
  byId("notice").hidden = !told.length;
  if (matchMedia("(max-width: 62rem)").matches) byId("filters").open = false;
}

function clear() {
  byId("q").value = "";
  byId("clear").focus();  // the button that was pressed may go
  go({...PLAIN, item: state.item});
}

function wire() {
  const q = byId("q");
  let later = 0;
  q.addEventListener("input", () => {
    // What is listed follows each letter, the address a moment later.
    state.q = q.value;
    drawn = address({...state, item: ""});
    drawCounts(compute());
    drawList();
    if (state.item) markRow(places.get(state.item) ?? -1); else byId("item").replaceChildren(...welcome());
    clearTimeout(later);
    later = setTimeout(() => history.replaceState(null, "", address(state)), 250);
  });
  byId("question").addEventListener("change", (event) => {
    const [task, ...kind] = event.target.value.split("/");
    go({task, kind: kind.join("/")});
  });
  for (const id of ["domain", "source", "set", "as", "sort", "model", "is", "model2", "is2"]) {
    byId(id).addEventListener("change", (event) => go({[id]: event.target.value}));
  }
  byId("clear").addEventListener("click", clear);
  byId("print-all").addEventListener("click", () => printAll().catch(complain));
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("rows").addEventListener("click", (event) => {
    const anchor = event.target.closest("a[data-item]");
    if (!anchor || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    wantsFocus = "heading";
    go({item: ids[Number(anchor.dataset.item)]});
  });
  addEventListener("hashchange", apply);
  addEventListener("keydown", key);
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const box = event.target.closest("input, select, textarea");
  if (box) {
    if (event.key === "Escape") box.blur();
    else if (box.id === "q" && event.key === "Enter") { box.blur(); step(1); }
    return;
  }
  const inList = byId("rows").contains(document.activeElement);
  const action = {
    j: () => step(1), ArrowRight: () => step(1), k: () => step(-1), ArrowLeft: () => step(-1),
    ArrowDown: inList && (() => step(1)), ArrowUp: inList && (() => step(-1)),
    "/": () => { byId("filters").open = true; document.body.classList.remove("open"); byId("q").focus(); byId("q").select(); },
    p: () => { const node = byId("item").querySelector("details.prompts"); if (node) node.open = !node.open; },
    Escape: () => state.item && close(), "?": () => byId("help").showModal(),
  }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}

(async () => {
  try {
    index = await load("index");
    held.delete("index");
    setUp();
    wire();
    drawn = "nothing";
    await apply();
    performance.mark("ready");
    document.documentElement.dataset.ready = "";
  } catch (error) {
    complain(error);
  }
})();
