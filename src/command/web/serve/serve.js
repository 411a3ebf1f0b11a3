/* A form for the model's input: its columns, lines of text, or JSON. Everything that comes from the
 * server is inserted as text, never as HTML. */

const $ = id => document.getElementById(id);
let about = null, path = "", mode = "json";

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

async function ask(to, body) {
    const headers = { Accept: "application/json" }, token = sessionStorage.getItem("token");
    if (token)
        headers.Authorization = "Bearer " + token;
    if (body !== undefined)
        headers["Content-Type"] = "application/json";
    const answer = await fetch(to, { headers, method: body === undefined ? "GET" : "POST", body });
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
    mode = about.columns ? "rows" : Array.isArray(example.lines) ? "lines" : "json";
    $("empty").hidden = mode !== "rows";
    if (mode === "rows")
        $("fields").replaceChildren(...about.fields.map((f, at) => field(f.name, false, control(f, at))));
    else if (mode === "lines")
        $("fields").replaceChildren(...targets(), field("one sentence a line", true,
            element("textarea", { id: "text", rows: 4, autofocus: "" })));
    else
        $("fields").replaceChildren(field("a request as JSON", true,
            element("textarea", { id: "text", rows: 4 }, about.example)));
    $("send").textContent = { rows: "Predict", lines: "Translate", json: "Send" }[mode];
}

/* Of a model of several languages: the target, whose tag is in front of each sentence. */
function targets() {
    const tagged = (about.targets || []).filter(t => t.tag);
    return tagged.length < 2 ? [] : [field("to", false, element("select", { id: "target" },
        ...tagged.map(t => element("option", { value: t.tag }, t.code))))];
}

/* Cells of a table are texts, as in CSV; an empty one is left out. */
function readForm() {
    if (mode === "json")
        return $("text").value;
    if (mode === "lines")
        return JSON.stringify({ lines: $("text").value.split("\n").filter(l => l.trim())
            .map(l => $("target") ? $("target").value + " " + l : l) });
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
    if (value.translations)
        box.replaceChildren(...value.translations.map(line => element("p", {}, line)));
    else if (first && first.scores)
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
    $("run").textContent = about.run;
    $("step").textContent = about.step === undefined ? "" : "step " + about.step.toLocaleString("en");
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
begin();
