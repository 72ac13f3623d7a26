// The page of `sparsim serve`: sends each change of the scenario, and shows the parts of the answer as they come.
import { moveTo, textAt } from "./sliders.js";

const MOST_TEXT = 200_000;
const SOON_MS = 120;
const at = (id) => document.getElementById(id);
const page = `${Date.now()}-${Math.random()}`;
const state = { text: at("text").value, pinned: "", shape: "", number: 0, waits: false, unsent: false, pending: new Map(), asking: null };
const first = state.text;

// Asking: one question at a time until its first answer is there; what changes meanwhile is asked next.

function change(key, value) {
  state.pending.set(key, value);
  ask();
}

function ask() {
  if (state.waits) return void (state.again = true);
  send();
}

async function send() {
  state.again = state.unsent = false;
  state.asking?.abort();
  const asking = state.asking = new AbortController();
  const number = ++state.number;
  const changes = [...state.pending];
  state.pending.clear();
  state.waits = true;
  at("result").setAttribute("aria-busy", "true");
  try {
    const reply = await fetch("/answer", {
      method: "POST",
      headers: { "content-type": "application/json", "sparsim-page": page },
      body: JSON.stringify({ text: state.text, changes, pinned: state.pinned, shape: state.shape }),
      signal: asking.signal,
    });
    if (!reply.ok) return say(number, await reply.text());
    await readLines(reply.body, (line) => show(number, JSON.parse(line)));
  } catch (error) {
    if (!asking.signal.aborted) say(number, "The program that answers is not running any more: start `sparsim serve` again.");
  } finally {
    answered(number);
  }
}

async function readLines(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line);
  }
}

function answered(number) {
  if (number !== state.number || !state.waits) return;
  state.waits = false;
  at("result").removeAttribute("aria-busy");
  document.body.dataset.answered = number;
  if (number === 1) performance.mark("sparsim-answered");
  if (state.again) send();
}

// Showing: every part takes the place of what was there.

function show(number, part) {
  if (number !== state.number) return;
  if (part.part === "scenario") showScenario(part);
  else if (part.part === "answer") {
    showProblems([]);
    replace(at("result"), part.html);
    showGlimpse();
    document.body.dataset.final = part.final ? number : "";
    answered(number);
  } else if (part.part === "map") {
    replace(at("map"), part.html);
    document.body.dataset.mapped = number;
  } else if (part.part === "difference") {
    at("difference").hidden = false;
    replace(at("difference"), part.html);
    document.body.dataset.compared = number;
  } else if (part.part === "problems") {
    if (part.text) setText(part.text);
    showProblems(part.problems);
    answered(number);
  } else if (part.part === "failed") say(number, part.text);
}

function say(number, text) {
  if (number !== state.number) return;
  showProblems([{ text: text.trim(), key: "", line: 0, column: 0 }]);
  answered(number);
}

function replace(place, html) {
  const open = new Set([...place.querySelectorAll("details[open]")].map((item) => item.id));
  place.innerHTML = html;
  for (const id of open) if (id) at(id)?.setAttribute("open", "");
}

function setText(text) {
  // What somebody has typed or chosen since then is asked next; an older answer must not undo it.
  if (state.unsent) return;
  state.text = text;
  if (at("text").value !== text && !(document.activeElement === at("text") && state.typing)) at("text").value = text;
  keepInAddress(text);
}

function showScenario(part) {
  setText(part.text);
  if (part.form !== undefined) {
    const focused = document.activeElement?.dataset;
    const key = focused?.field ?? focused?.slider;
    const kind = focused?.slider ? "slider" : "field";
    replace(at("form"), part.form);
    if (key) [...at("form").querySelectorAll(`[data-${kind}]`)].find((item) => item.dataset[kind] === key)?.focus();
  }
  state.shape = part.shape;
  for (const field of at("form").querySelectorAll("[data-field]")) showValue(field, part.values[field.dataset.field]);
  for (const slider of at("form").querySelectorAll("[data-slider]")) {
    const value = part.values[slider.dataset.slider]?.si;
    if (value > 0 && document.activeElement !== slider) moveTo(slider, value);
  }
  const [nodes, each] = ["cluster.nodes", "cluster.gpus_per_node"].map((key) => part.values[key]?.si);
  const workers = nodes && each ? (nodes * each).toLocaleString("en") : "";
  at("workers").textContent = workers ? `${workers} workers: ${each} on each node` : "";
}

function showValue(field, value) {
  if (!value || state.pending.has(field.dataset.field)) return;
  if (field instanceof HTMLSelectElement) {
    const wanted = value.text;
    const about = at(`about-${field.dataset.field}`);
    if (about) about.textContent = value.about ?? "";
    for (const item of field.querySelectorAll("option[data-added]")) item.remove();
    if (field.options[0]?.value === "") field.options[0].textContent = value.shown ? `(${value.shown})` : "";
    if (wanted && ![...field.options].some((item) => item.value === wanted)) {
      const added = new Option(wanted, wanted);
      added.dataset.added = "";
      field.add(added);
    }
    field.value = wanted;
    return;
  }
  const slides = field.parentElement.classList.contains("slider");
  if (document.activeElement !== field) field.value = value.text || (slides ? value.shown : "");
  field.placeholder = value.shown || (field.dataset.example ? `such as ${field.dataset.example}` : "");
}

function showProblems(problems) {
  at("problems").hidden = !problems.length;
  document.body.classList.toggle("unanswered", problems.length > 0);
  const list = at("problems").querySelector("ul");
  list.replaceChildren(...problems.map(describeProblem));
  at("ignore").hidden = !problems.some((item) => item.text.includes("--ignore-memory"));
  for (const field of document.querySelectorAll(".field")) {
    const own = problems.find((item) => item.key && belongs(field.dataset.key, item.key));
    const place = field.querySelector(".problem");
    place.hidden = !own;
    place.textContent = own ? own.text : "";
    for (const input of field.querySelectorAll("input, select")) {
      if (own) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    if (own) field.closest("details")?.setAttribute("open", "");
  }
}

function belongs(field, key) {
  return key === field || key.startsWith(`${field}.`) || `${key}.kind` === field || (field === "workload" && key === "workload.trace");
}

function describeProblem(problem) {
  const item = document.createElement("li");
  // The name of the scenario stands above; a problem of all of it need not repeat it.
  item.textContent = problem.text.replace(/^scenario '[^']*': /, "");
  if (problem.line) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `line ${problem.line}`;
    button.addEventListener("click", () => goToLine(problem.line));
    item.append(" ", button);
  }
  return item;
}

function goToLine(line) {
  at("group-text").open = true;
  const before = at("text").value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  const end = at("text").value.indexOf("\n", before);
  at("text").focus();
  at("text").setSelectionRange(before, end < 0 ? at("text").value.length : end);
}

function showGlimpse() {
  const time = document.querySelector(".glance dd")?.textContent.split(" (")[0].trim() ?? "";
  const answer = document.querySelector("#result .answer")?.textContent ?? "";
  at("glimpse").textContent = `${time}. ${answer.split(";")[0]}`;
  at("glimpse").hidden = false;
}

// Links that hold the scenario: deflated text after the # of the address, which is never sent to a server.

async function pack(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (text.length > MOST_TEXT) throw new Error("too long");
  }
}

let keeping = 0;
function keepInAddress(text) {
  clearTimeout(keeping);
  keeping = setTimeout(async () => {
    const hash = `#s=${await pack(text)}`;
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }, 400);
}

async function readAddress() {
  if (!location.hash.startsWith("#s=")) return;
  try {
    const text = await unpack(location.hash.slice(3));
    state.text = at("text").value = text;
  } catch {
    tell("The link holds no scenario; this is the one of the command.");
  }
}

// Tools and fields.

function tell(text) {
  at("said").textContent = text;
}

at("form").addEventListener("change", (event) => {
  const field = event.target.dataset?.field;
  if (field) change(field, event.target.value);
});
at("form").addEventListener("input", (event) => {
  const slider = event.target;
  if (!slider.dataset?.slider) return;
  const text = textAt(slider);
  slider.parentElement.querySelector("[data-field]").value = text;
  change(slider.dataset.slider, text);
});
at("scenario").addEventListener("submit", (event) => event.preventDefault());
at("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("input[type=text]")) {
    event.preventDefault();
    event.target.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

let typed = 0;
at("text").addEventListener("input", () => {
  clearTimeout(typed);
  state.typing = state.unsent = true;
  typed = setTimeout(() => {
    state.text = at("text").value;
    state.pending.clear();
    ask();
  }, SOON_MS);
});
at("text").addEventListener("blur", () => { state.typing = false; });

at("start").addEventListener("change", async (event) => {
  const name = event.target.value;
  const reply = name ? await fetch(`/scenarios/${encodeURIComponent(name)}`) : null;
  state.text = at("text").value = reply ? await reply.text() : first;
  state.unsent = true;
  state.pending.clear();
  ask();
});

at("export").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([state.text], { type: "application/yaml" }));
  link.download = "scenario.yaml";
  link.click();
  URL.revokeObjectURL(link.href);
  tell("Saved: `sparsim run scenario.yaml` gives the same answer.");
});

at("ignore").addEventListener("click", () => change("ignore_memory", "true"));

at("link").addEventListener("click", async () => {
  history.replaceState(null, "", `#s=${await pack(state.text)}`);
  try {
    await navigator.clipboard.writeText(location.href);
    tell("Copied: the link holds the whole scenario.");
  } catch {
    tell("The address of this page now holds the whole scenario.");
  }
});

at("pin").addEventListener("click", () => {
  state.pinned = state.pinned ? "" : state.text;
  at("pin").setAttribute("aria-pressed", String(Boolean(state.pinned)));
  at("pin").textContent = state.pinned ? "Forget A" : "Keep as A, compare";
  at("difference").hidden = true;
  at("difference").replaceChildren();
  tell(state.pinned ? "This scenario is A. Change it, and the difference is shown term by term." : "");
  ask();
});

function goToAnswer(event) {
  event.preventDefault();
  at("answer").scrollIntoView();
  at("answer").focus({ preventScroll: true });
}
document.querySelector(".skip").addEventListener("click", goToAnswer);
at("glimpse").addEventListener("click", goToAnswer);

addEventListener("hashchange", async () => {
  const before = state.text;
  await readAddress();
  if (state.text !== before) ask();
});

await readAddress();
ask();
