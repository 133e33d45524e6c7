"use strict";
// Everything is readable without this script; it adds sorting, filtering and the mark in the contents.
const FILTER_FROM = 12;

function keyOf(row, column) {
  const cell = row.cells[column];
  if (!cell) return null;
  if (cell.dataset.v !== undefined) return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  return cell.textContent.trim() || null;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, {numeric: true});
}

function sort(table, rows, heads, column) {
  const before = heads[column].getAttribute("aria-sort");
  const numeric = heads[column].classList.contains("num");
  // First the direction people want (large numbers, early letters), then the other, then the order as given.
  const cycle = numeric ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
  const now = cycle[(cycle.indexOf(before) + 1) % 3];
  heads.forEach((head) => head.setAttribute("aria-sort", "none"));
  heads[column].setAttribute("aria-sort", now);
  const sign = now === "descending" ? -1 : 1;
  const sorted = now === "none" ? rows : rows.slice().sort((a, b) => {
    const x = keyOf(a, column), y = keyOf(b, column);
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * compare(x, y);
  });
  table.tBodies[0].append(...sorted);
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  const rows = [...table.tBodies[0].rows];
  const heads = [...table.tHead.rows[0].cells];
  if (rows.length < 2) continue;
  heads.forEach((head, column) => {
    if (head.classList.contains("bar")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, rows, heads, column));
    head.append(button);
    head.setAttribute("aria-sort", "none");
  });
  if (rows.length < FILTER_FROM || table.dataset.filter === "none") continue;
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", "Filter rows of " + table.parentElement.getAttribute("aria-label"));
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of rows) row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(input);
}

for (const board of document.querySelectorAll(".board")) {
  const controls = board.querySelector(".controls");
  const inputs = [...controls.querySelectorAll("[data-choose]")];
  const said = controls.querySelector("output");
  const wanted = (name) => inputs.find((input) => input.dataset.choose === name)?.value ?? "";
  const show = () => {
    const chosen = wanted("board") || "0";
    const text = wanted("text").trim().toLowerCase();
    for (const part of board.querySelectorAll("[data-board]")) part.hidden = part.dataset.board !== chosen;
    const rows = [...board.querySelector(`[data-board="${chosen}"] tbody`).rows];
    for (const row of rows) {
      row.hidden = ["group", "family", "provider"].some((name) => wanted(name) !== "" && row.dataset[name] !== wanted(name))
        || !row.dataset.name.toLowerCase().includes(text);
    }
    const left = rows.filter((row) => !row.hidden).length;
    said.textContent = left < rows.length ? `${left} of ${rows.length}` : board.querySelector(`[data-board="${chosen}"]`).dataset.counted;
  };
  inputs.forEach((input) => input.addEventListener("input", show));
  controls.hidden = false;
  show();
  addEventListener("pageshow", show);  // a browser that goes back fills the fields in again
}

function reveal() {
  let node = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  for (const target = node; node; node = node.parentElement) {
    if (node.tagName === "DETAILS") node.open = true;
    if (!node.parentElement) target.scrollIntoView();
  }
}
addEventListener("hashchange", reveal);
reveal();

const contents = document.querySelector(".side .contents");
if (matchMedia("(max-width: 62rem)").matches) contents.open = false;
const links = new Map([...contents.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
const inView = new Set();
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target.id);
  const first = [...links.keys()].find((id) => inView.has(id));
  if (!first) return;
  links.forEach((link, id) => id === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
}, {rootMargin: "-5% 0px -70% 0px"});
for (const id of links.keys()) {
  const target = document.getElementById(id);
  if (target) seen.observe(target);
}

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("main details:not([open], .long-list)")];
  folded.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => folded.forEach((details) => { details.open = false; }));
document.documentElement.dataset.ready = "";
