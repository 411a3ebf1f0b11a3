/* A form for the model's input: its columns, a text to translate, or JSON. A text is translated while
 * it is typed, and a file that is dropped on the page is translated whole. Everything that comes from
 * the server is inserted as text, never as HTML. */

const $ = id => document.getElementById(id);
/* Milliseconds without a key before a text is translated. */
const PAUSE = 300;
let about = null, path = "", mode = "json", languages = [], timer = 0, running = null, file = null;

function element(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {}))
        e.setAttribute(name, value);
    e.append(...children);
    return e;
}

/* A token may be after #, which browsers do not send; it is kept for this tab. */
function readToken() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (given.has("token")) {
        sessionStorage.setItem("token", given.get("token"));
        history.replaceState(null, "", location.pathname);
    }
}

async function ask(to, body, signal) {
    const headers = { Accept: "application/json" }, token = sessionStorage.getItem("token");
    if (token)
        headers.Authorization = "Bearer " + token;
    if (body !== undefined)
        headers["Content-Type"] = "application/json";
    const answer = await fetch(to, { headers, method: body === undefined ? "GET" : "POST", body, signal });
    const value = await answer.json().catch(() => ({}));
    if (!answer.ok)
        throw new Error(answer.status === 401 ? "A token is needed: open the address with #token=TOKEN."
                                              : value.error || answer.statusText);
    return value;
}

function say(text, bad) {
    $("state").textContent = text;
    $("state").className = bad ? "bad" : "";
}

/* ---- the form ---- */

function field(name, wide, control) {
    return element("label", { class: wide ? "wide" : "" }, name, control);
}

/* The input of a column, with its example: a list of classes, a date, a number, or a text, with
 * values to choose from. An empty input is a missing value. */
function control({ name, kind, example = "", values = [] }, at) {
    const types = { date: "date", datetime: "datetime-local", time: "time" };
    if (kind === "class") {
        const list = element("select", { name }, element("option", { value: "" }, "(missing)"),
                             ...values.map(v => element("option", { value: v }, v)));
        list.value = example;
        return list;
    }
    const input = element("input", { name, type: types[kind] || "text", value: example, autocomplete: "off",
                                     placeholder: "empty: missing" });
    if (kind === "number")
        input.setAttribute("inputmode", "decimal");
    if (!values.length)
        return input;
    input.setAttribute("list", "values" + at);
    return element("span", {}, input, element("datalist", { id: "values" + at },
                                              ...values.map(v => element("option", { value: v }))));
}

function makeForm() {
    const example = JSON.parse(about.example);
    mode = about.columns ? "rows" : Array.isArray(example.lines) ? "text" : "json";
    $("empty").hidden = mode !== "rows";
    $("send").hidden = mode === "text";
    if (mode === "rows")
        $("fields").replaceChildren(...about.fields.map((f, at) => field(f.name, false, control(f, at))));
    else if (mode === "text")
        makePanes();
    else
        $("fields").replaceChildren(field("a request as JSON", true,
            element("textarea", { id: "text", rows: 4 }, about.example)));
    $("send").textContent = mode === "rows" ? "Predict" : "Send";
}

/* ---- a text and its translation ---- */

function makePanes() {
    const from = element("select", { id: "source", "aria-label": "from" },
                         ...languages.filter(l => l.targets.length).map(l => element("option", { value: l.code }, l.name)));
    const to = element("select", { id: "target", "aria-label": "to" });
    const swap = element("button", { type: "button", id: "swap", title: "other direction" }, "⇄");
    const pair = element("div", { class: "wide pair" }, from, swap, to);
    pair.hidden = !languages.length;
    $("fields").replaceChildren(pair,
        element("textarea", { id: "text", rows: 8, autofocus: "", "aria-label": "text",
                              placeholder: "Type a text, or drop a file here." }),
        element("div", { id: "result", class: "pane", "aria-live": "polite" }));
    from.addEventListener("change", () => (listTargets(), later(0)));
    to.addEventListener("change", () => (markSwap(), later(0)));
    swap.addEventListener("click", turnRound);
    $("text").addEventListener("input", () => (file = null, later(PAUSE)));
    listTargets();
}

const language = code => languages.find(l => l.code === code);

function listTargets(wanted) {
    const codes = (language($("source").value) || { targets: [] }).targets;
    $("target").replaceChildren(...codes.map(c => element("option", { value: c }, language(c).name)));
    if (codes.includes(wanted))
        $("target").value = wanted;
    markSwap();
}

function markSwap() {
    const back = language($("target").value);
    $("swap").disabled = !back || !back.targets.includes($("source").value);
}

/* The translation becomes the text. */
function turnRound() {
    const to = $("source").value;
    $("source").value = $("target").value;
    listTargets(to);
    if (!file)
        $("text").value = $("result").textContent;
    later(0);
}

function later(pause) {
    clearTimeout(timer);
    timer = setTimeout(translate, pause);
}

/* One request at a time: a newer text ends the request of the older one, and the server its work. */
async function translate() {
    const text = $("text").value, began = performance.now();
    if (running)
        running.abort();
    running = null;
    if (!text.trim()) {
        $("result").replaceChildren();
        say("");
        return;
    }
    const own = running = new AbortController();
    const body = readForm();
    showCurl(body);
    say("…");
    try {
        const value = await ask(path, body, own.signal);
        showText(value);
        say(`${value.through ? "through " + language(value.through).name + ", " : ""}${Math.round(performance.now() - began)} ms`);
    } catch (error) {
        if (error.name !== "AbortError")
            say(error.message, true);
    }
}

function showText(value) {
    const text = value.translatedText ?? value.translations.join("\n");
    $("result").replaceChildren(text);
    if (!file)
        return;
    const link = element("a", { href: URL.createObjectURL(new Blob([text])), download: translated(file.name) },
                         translated(file.name));
    $("result").prepend(element("p", {}, link));
}

/* "a.html" in German is "a.de.html". */
function translated(name) {
    const dot = name.lastIndexOf("."), code = $("target").value || "translated";
    return dot > 0 ? name.slice(0, dot) + "." + code + name.slice(dot) : name + "." + code;
}

async function drop(event) {
    if (mode !== "text" || !event.dataTransfer.files.length)
        return;
    event.preventDefault();
    try {
        const given = event.dataTransfer.files[0];
        $("text").value = new TextDecoder("utf-8", { fatal: true }).decode(await given.arrayBuffer());
        file = { name: given.name };
        later(0);
    } catch (error) {
        say("The file is not a text in UTF-8.", true);
    }
}

/* ---- reading the form ---- */

/* Cells of a table are texts, as in CSV; an empty one is left out. */
function readForm() {
    if (mode === "json")
        return $("text").value;
    if (mode === "text" && !languages.length)
        return JSON.stringify({ lines: $("text").value.split("\n") });
    if (mode === "text")
        return JSON.stringify({ q: $("text").value, source: $("source").value, target: $("target").value,
                                ...(file ? { name: file.name } : {}) });
    const row = {};
    for (const input of $("fields").querySelectorAll("input, select"))
        if (input.value.trim())
            row[input.name] = input.value.trim();
    return JSON.stringify({ rows: [row] });
}

/* ---- the answer ---- */

function showScores(prediction) {
    const labels = about.labels || [], scores = prediction.scores;
    const named = Array.isArray(scores) ? scores.map((s, i) => [labels[i] ?? String(i), s]) : Object.entries(scores);
    return named.sort((a, b) => b[1] - a[1]).slice(0, 20).map(([label, score]) => element("div", { class: "score" },
        element("span", {}, label),
        element("i", { style: `width: ${Math.max(0, Math.min(1, score)) * 100}%` }),
        element("span", { class: "number" }, (100 * score).toFixed(1) + " %")));
}

/* "12.5, 3", and of several targets "price: 12.5, days: 3". */
function line(value) {
    return Array.isArray(value) ? value.join(", ")
        : value && typeof value === "object" ? Object.entries(value).map(([name, one]) => `${name}: ${one}`).join(", ")
        : String(value);
}

function show(value) {
    const first = (value.predictions || [])[0], box = $("answer");
    if (first && first.scores)
        box.replaceChildren(element("p", { class: "label" }, line(first.label)), ...showScores(first));
    else if (first && first.values)
        box.replaceChildren(element("p", { class: "label" }, line(first.values)));
    else if (first && first.quantiles)
        box.replaceChildren(element("p", { class: "label" }, line(first.quantiles)));
    else
        box.replaceChildren(element("pre", {}, JSON.stringify(value, null, 2)));
}

function showCurl(body) {
    const quoted = "'" + body.replace(/'/g, "'\\''") + "'";
    const token = sessionStorage.getItem("token") ? "-H 'Authorization: Bearer TOKEN' " : "";
    $("curl").textContent = `curl ${token}-H 'Content-Type: application/json' -d ${quoted} ${location.origin}${path}`;
}

async function send(event) {
    event.preventDefault();
    if (mode === "text")
        return later(0);
    const body = readForm(), began = performance.now();
    $("send").disabled = true;
    say("…");
    showCurl(body);
    try {
        show(await ask(path, body));
        say(Math.round(performance.now() - began) + " ms");
    } catch (error) {
        say(error.message, true);
    }
    $("send").disabled = false;
}

async function begin() {
    readToken();
    try {
        about = await ask("/");
    } catch (error) {
        say(error.message, true);
        $("send").disabled = true;
        return;
    }
    /* Without known languages the server refuses, and the model translates lines. */
    languages = about.source ? await ask("/languages") : [];
    $("run").textContent = about.models ? about.models.length + " models" : about.run;
    $("step").textContent = about.step === undefined || about.models ? "" : "step " + about.step.toLocaleString("en");
    path = about.paths.find(p => p.startsWith("POST ")).slice(5);
    makeForm();
    showCurl(mode === "rows" ? readForm() : about.example);
    document.body.dataset.mode = mode;
}

$("ask").addEventListener("submit", send);
$("empty").addEventListener("click", () => {
    for (const input of $("fields").querySelectorAll("input, select"))
        input.value = "";
});
/* Ctrl-Enter sends from a text of several lines. */
$("ask").addEventListener("keydown", e => e.key === "Enter" && e.ctrlKey && $("ask").requestSubmit());
document.addEventListener("dragover", event => mode === "text" && event.preventDefault());
document.addEventListener("drop", drop);
begin();
