/* The page polls the server for each run, and draws what is new. Everything that comes from a run
 * is inserted as text, never as HTML. */

const runs = new Map(); // id -> {info, on, color, generation, series}
const shared = { view: "charts", log: false, smooth: 0, axis: "step", range: null, zoomed: redraw };
const charts = new Map(); // key -> {card, chart, legend}
let focus = null, tab = "overview", detail = null, sample = null, shownSample = null;
let wanted = null, told = 0, failures = 0, updates = 0, timer = 0;

const $ = id => document.getElementById(id);

function element(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {}))
        if (name.startsWith("on"))
            e.addEventListener(name.slice(2), value);
        else if (value !== null && value !== undefined && value !== false)
            e.setAttribute(name, value === true ? "" : value);
    e.append(...children.filter(c => c !== null && c !== undefined));
    return e;
}

function setText(e, text) {
    if (e.textContent !== text)
        e.textContent = text;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* After #, which browsers do not send, the address has a token, the view, the run and the tab. The
 * token is kept for this browser tab and removed from the address. */
function readAddress() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (given.has("token"))
        sessionStorage.setItem("token", given.get("token"));
    if (given.has("run"))
        wanted = { run: given.get("run"), tab: given.get("tab") };
    shared.view = given.get("view") === "table" ? "table" : "charts";
    $("view").value = shared.view;
    writeAddress();
}

function writeAddress() {
    const to = new URLSearchParams(), run = focus === null ? wanted && wanted.run : runs.get(focus).info.name;
    if (run)
        to.set("run", run);
    if (run && tab !== "overview")
        to.set("tab", tab);
    if (shared.view !== "charts")
        to.set("view", shared.view);
    history.replaceState(null, "", location.pathname + (String(to) ? "#" + to : ""));
}

async function ask(path, body) {
    const headers = {}, key = sessionStorage.getItem("token");
    if (key)
        headers.Authorization = "Bearer " + key;
    if (body)
        headers["Content-Type"] = "application/json";
    const answer = await fetch(path, { headers, method: body ? "POST" : "GET",
                                       body: body ? JSON.stringify(body) : undefined });
    if (answer.ok)
        return answer;
    const error = new Error((await answer.json().catch(() => ({}))).error || answer.statusText);
    error.status = answer.status;
    throw error;
}

/* ---- runs ------------------------------------------------------------------------------------ */

const colors = ["#3f7fe0", "#e0703a", "#2a9d6f", "#c2479b", "#b98a10", "#7a5bd0", "#1e9fc0", "#d24a56",
                "#7d8c2f", "#8c6a4f"];

/* A run keeps its color as long as the browser stores it, whatever other runs there are: name ->
 * number. */
const painted = new Map();

function rememberColors() {
    for (const [name, number] of JSON.parse(localStorage.getItem("colors:" + $("where").textContent) || "[]"))
        painted.set(name, number);
}

function colorOf(name) {
    if (!painted.has(name)) {
        const used = new Set(painted.values());
        let number = 0;
        while (used.has(number))
            number++;
        painted.set(name, number);
        localStorage.setItem("colors:" + $("where").textContent, JSON.stringify([...painted].slice(-500)));
    }
    const number = painted.get(name);
    return colors[number] || `hsl(${Math.round(number * 137.5) % 360} 60% 52%)`;
}

function turnOn(run, on) {
    run.on = on;
    run.color = on ? colorOf(run.info.name) : null;
}

/* At first the runs that train, then the newest; later those that the user chose. */
const firstRuns = 8;
let chosen = false; // by the user

function chooseFirst() {
    const kept = JSON.parse(sessionStorage.getItem("on:" + $("where").textContent) || "null");
    const all = [...runs.values()].sort(byActivity);
    chosen = kept !== null;
    for (const run of kept ? all.filter(r => kept.includes(r.info.name)) : all.slice(0, firstRuns))
        turnOn(run, true);
}

/* Why some runs are ticked, and which ticked runs have no values yet. */
function sayWhy() {
    const on = [...runs.values()].filter(r => r.on), left = runs.size - on.length;
    $("why").hidden = chosen || !left;
    setText($("why"), `${on.length} of ${runs.size} runs are ticked: runs at work, then the newest. ` +
                      "Tick others to draw them.");
    const waiting = on.filter(isWaiting), first = waiting[0];
    $("waits").hidden = !first;
    if (first)
        setText($("waits"), `${first.info.name}: first values at step ${first.info.first.toLocaleString("en")}` +
                            (waiting.length > 1 ? `; ${waiting.length - 1} more without values` : ""));
}

function keepChoice() {
    const names = [...runs.values()].filter(r => r.on).map(r => r.info.name);
    chosen = true;
    sessionStorage.setItem("on:" + $("where").textContent, JSON.stringify(names));
}

function byActivity(a, b) {
    const working = r => r.info.state === "running" ? 1 : 0;
    return working(b) - working(a) || (b.info.last || 0) - (a.info.last || 0) ||
           a.info.name.localeCompare(b.info.name);
}

function takeRuns(answer) {
    const first = !runs.size;
    setText($("where"), answer.directory);
    for (const info of answer.runs) {
        const run = runs.get(info.id);
        if (run)
            run.info = info;
        else
            runs.set(info.id, { info, on: false, color: null, generation: 0, series: [] });
    }
    if (first && runs.size) {
        rememberColors();
        chooseFirst();
    }
    $("empty").hidden = runs.size > 0;
    setText($("empty"), "There is no run below " + answer.directory + " yet; this page waits for one.");
}

function listRuns() {
    const list = $("runs"), word = $("filter").value.toLowerCase();
    const same = commonStart([...runs.values()].map(r => r.info.name));
    const wanted = [...runs.values()].filter(r => r.info.name.toLowerCase().includes(word)).sort(byActivity);
    wanted.forEach((run, i) => {
        run.row = run.row || makeRow(run);
        if (list.children[i] !== run.row.item)
            list.insertBefore(run.row.item, list.children[i] || null);
        fillRow(run, same);
    });
    while (list.children.length > wanted.length)
        list.lastChild.remove();
    sayWhy();
}

/* ---- names ---- */

/* How many letters all names begin with. */
function commonStart(names) {
    let same = 0;
    while (names.length > 1 && names.every(n => n[same] !== undefined && n[same] === names[0][same]))
        same++;
    return same;
}

/* A name in two parts. If there is too little room, the first one is cut, so that names that begin
 * alike still differ. */
const nameEnd = 12;

function setName(e, name, same) {
    const cut = Math.max(Math.min(same, name.length - nameEnd / 2), name.length - nameEnd, 0);
    if (e.children.length !== 2)
        e.replaceChildren(element("span", { class: "begin" }), element("span", { class: "end" }));
    setText(e.firstChild, name.slice(0, cut));
    setText(e.lastChild, name.slice(cut));
    e.title = name;
}

function makeRow(run) {
    const row = {};
    row.box = element("input", { type: "checkbox", "aria-label": "show " + run.info.name,
                                 onchange: () => { turnOn(run, row.box.checked); keepChoice(); refresh(); } });
    row.name = element("button", { type: "button", class: "name", onclick: () => show(run.info.id) });
    row.best = element("span", { class: "best" });
    row.state = element("span", { class: "state" });
    row.far = element("span", { class: "far" });
    row.bar = element("i");
    row.item = element("li", {}, row.box, row.name,
                       element("span", { class: "facts" }, row.state, row.far), row.best,
                       element("span", { class: "bar" }, row.bar));
    return row;
}

/* A run may end before its last step, if it was stopped early. */
function isEarly(info) {
    return info.state === "done" && info.steps > 0 && info.step < info.steps;
}

/* A run that works, and has no values yet. */
function isWaiting({ info }) {
    return info.state === "running" && info.points === 0 && info.first > 0;
}

function progressOf(info) {
    if (isWaiting({ info }))
        return "first values at step " + info.first.toLocaleString("en");
    if (info.step < 0 || info.step === undefined)
        return info.state === "done" ? "" : "no step yet";
    const seconds = formatTime(info.seconds);
    return (isEarly(info) ? "stopped early at " + format(info.step)
            : format(info.step) + (info.steps > 0 ? " / " + format(info.steps) : "")) +
           (seconds ? " · " + seconds : "");
}

function metricName(metric) {
    return metric.replace(/^(.*[|/.])?validation_/, "$1");
}

function fillRow(run, same) {
    const { info, row } = run, state = info.fault ? "unreadable" : info.state || "";
    setName(row.name, info.name, same);
    row.box.checked = run.on;
    row.box.style.accentColor = run.color || "";
    row.item.className = info.id === focus ? "focus" : "";
    row.item.dataset.run = info.name;
    row.item.dataset.step = info.step;
    setText(row.best, info.best ? "best " + metricName(info.best.metric) + " " + format(info.best.value) : "");
    row.best.title = info.best ? info.best.metric + " at step " + format(info.best.step) : "";
    setText(row.state, state);
    row.state.className = "state " + state;
    row.state.title = info.fault || "";
    setText(row.far, progressOf(info));
    const part = info.state === "done" ? 1 : info.steps > 0 ? info.step / info.steps : 0;
    row.bar.style.width = 100 * Math.min(1, Math.max(0, part)) + "%";
    row.bar.style.background = run.color || "";
}

/* ---- points ---------------------------------------------------------------------------------- */

function known(run) {
    return run.series.reduce((sum, s) => sum + s.step.length, 0);
}

async function askPoints() {
    for (let more = true; more;) {
        const late = [...runs.values()].filter(
            r => r.on && r.info.points !== undefined &&
                 (r.generation !== r.info.generation || known(r) !== r.info.points));
        if (!late.length)
            return;
        const body = { runs: late.slice(0, 200).map(r => ({
            id: r.info.id, generation: r.generation, have: r.series.map(s => s.step.length) })) };
        const answer = await (await ask("api/points", body)).json();
        answer.runs.forEach(takePoints);
        updates += answer.runs.some(r => r.series.length) ? 1 : 0;
        more = answer.more;
    }
}

function takePoints(part) {
    const run = runs.get(part.id);
    if (run.generation !== part.generation)
        run.series = [];
    run.generation = part.generation;
    for (const { at, name, lower, repeats, points } of part.series) {
        const s = run.series[at] = run.series[at] || { name, lower, step: [], wall: [], value: [] };
        s.repeats = repeats;
        for (const [step, wall, value] of points) {
            s.step.push(step);
            s.wall.push(wall);
            s.value.push(value === null ? NaN : value);
        }
    }
    /* A series that comes in a later part. */
    for (let i = 0; i < run.series.length; i++)
        run.series[i] = run.series[i] || { name: "", step: [], wall: [], value: [] };
}

/* ---- charts ---------------------------------------------------------------------------------- */

/* "validation.validation_loss" is "loss" of validation; "train.time.steps_per_second" is
 * "steps_per_second" of train; "validation.price.q0.1.validation_pinball_loss" is "pinball_loss" of
 * validation, in a chart of the target price, where the quantile q0.1 is a curve of its own. */
function chartOf(name) {
    const parts = name.split("."), leaf = parts.pop(), sides = parts[0] === "measured" ? 2 : 1;
    const rest = parts.slice(sides).filter(p => p !== "time").join(".");
    const [, part, quantile] = /^(?:(.*?)\.?)?(q[01](?:\.\d+)?)$/.exec(rest) || ["", rest, ""];
    return { key: leaf.replace(/^(training|validation)_/, ""), side: parts.slice(0, sides).join("."),
             part: part || "", quantile, timed: parts.includes("time") };
}

const sections = ["Losses and scores", "Training", "Throughput", "Other"];

function sectionOf(key, timed, sides) {
    if (/^best_|^epoch$|^seconds$|^wall$/.test(key) || key === "step")
        return 3;
    if (timed || /per_second/.test(key))
        return 2;
    return sides.some(s => /valid|measured/.test(s)) || /loss|nll|accuracy|score/.test(key) ? 0 : 1;
}

/* Solid for training, dashes for validation, dots for evaluations by other processes. */
function dashOf(side) {
    return side.startsWith("measured") ? [2, 4] : side.startsWith("valid") ? [7, 4] : [];
}

function xOf(run, s) {
    if (shared.axis === "step")
        return s.step;
    const begin = shared.axis === "clock" ? 0 : run.begin;
    return s.wall.map(w => w === null ? NaN : w - begin);
}

function collect() {
    const found = new Map(), words = $("find").value.toLowerCase().split(/[\s,]+/).filter(w => w);
    for (const run of [...runs.values()].filter(r => r.on).sort(byActivity)) {
        run.begin = Math.min(...run.series.map(s => s.wall.find(w => w !== null) ?? Infinity));
        for (const s of run.series) {
            if (!s.name || !s.step.length)
                continue;
            const { key, side, part, quantile, timed } = chartOf(s.name);
            if (words.length && !words.some(w => (key + " " + part).toLowerCase().includes(w)))
                continue;
            const kind = run.info.kind || "", id = kind + "|" + key + (part ? "|" + part : "");
            const group = found.get(id) || { id, key, part, kind, timed, lines: [] };
            found.set(id, group);
            group.lines.push({ x: xOf(run, s), y: s.value, dash: dashOf(side), name: run.info.name, series: s,
                               color: quantile ? colorOf(run.info.name + " " + quantile) : run.color,
                               side: side + (quantile ? " " + quantile : "") });
        }
    }
    /* A loss that two names have gets one chart, unless the user filters for it. */
    for (const group of words.length ? [] : [...found.values()])
        if (group.lines.every(l => l.series.repeats))
            found.delete(group.id);
    return found;
}

function orderOf(group, best) {
    const first = ["loss", ...best].indexOf(group.key);
    return first < 0 ? 99 : first;
}

function makeCard({ id, key, part, kind }) {
    const card = element("article", { class: "card", "data-chart": key, "data-part": part || null, "data-kind": kind });
    const canvas = element("canvas", { role: "img", "aria-label": "curves of " + key + (part ? " of " + part : "") });
    const legend = element("ul", { class: "legend" });
    const more = element("button", { type: "button", class: "more", hidden: true,
        onclick: () => { card.classList.toggle("open"); sayMore(charts.get(id)); } });
    const button = (title, text, onclick) => element("button", { type: "button", title, "aria-label": title, onclick }, text);
    const title = element("h3", {}, key), chart = new Chart(canvas, shared, $("tip"));
    card.append(element("div", { class: "head" }, title,
                        button("download the points (CSV)", "csv", () => saveText(title.textContent + ".csv", pointsAsCsv(chart.lines))),
                        button("download the picture (PNG)", "png", () => savePicture(title.textContent, chart)),
                        button("larger", "⤢", () => { card.classList.toggle("large"); chart.draw(); })),
                canvas, legend, more);
    return { card, chart, legend, more, title };
}

/* A legend has five rows until it is opened. */
const legendRows = 5;

function sayMore({ card, legend, more }) {
    const count = legend.children.length - legendRows;
    more.hidden = count <= 0;
    setText(more, card.classList.contains("open") ? "show fewer" : `show ${count} more`);
}

/* ---- downloads ---- */

function save(name, url) {
    element("a", { href: url, download: name }).click();
}

function saveText(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    save(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/* RFC 4180. A cell that a spreadsheet would take for a formula gets an apostrophe in front. */
function csvRow(cells) {
    return cells.map(cell => {
        const text = String(cell ?? ""), plain = /^[=+@\t\r]|^-(?![0-9.])/.test(text) ? "'" + text : text;
        return /[",\n\r]/.test(plain) ? '"' + plain.replace(/"/g, '""') + '"' : plain;
    }).join(",") + "\r\n";
}

function pointsAsCsv(lines) {
    return csvRow(["run", "series", "step", "unix_time", "value"]) + lines.map(({ name, series: s }) =>
        s.step.map((step, i) => csvRow([name, s.name, step, s.wall[i], s.value[i]])).join("")).join("");
}

/* The chart as shown, with its title and a legend. */
function savePicture(title, chart) {
    const scale = window.devicePixelRatio || 1, row = 18 * scale, from = chart.canvas;
    const to = element("canvas", { width: from.width, height: from.height + row * (chart.lines.length + 2) });
    const ink = to.getContext("2d");
    ink.fillStyle = color("--card");
    ink.fillRect(0, 0, to.width, to.height);
    ink.fillStyle = color("--text");
    ink.font = `${13 * scale}px system-ui, sans-serif`;
    ink.fillText(title, 8 * scale, row);
    ink.drawImage(from, 0, 1.5 * row);
    chart.lines.forEach((line, i) => {
        const y = from.height + (i + 2.4) * row;
        ink.fillStyle = line.color;
        ink.fillRect(8 * scale, y - 9 * scale, 10 * scale, 10 * scale);
        ink.fillStyle = color("--text");
        ink.fillText(line.name + (line.side ? " · " + line.side : ""), 24 * scale, y);
    });
    save(title + ".png", to.toDataURL("image/png"));
}

/* ---- drawing the charts ---- */

function swatch(line) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [name, value] of Object.entries({ width: 22, height: 6 }))
        svg.setAttribute(name, value);
    for (const [name, value] of Object.entries({ x1: 0, y1: 3, x2: 22, y2: 3, stroke: line.color,
                                                 "stroke-width": 2, "stroke-dasharray": line.dash.join(" ") }))
        path.setAttribute(name, value);
    svg.append(path);
    return svg;
}

/* The place of the best value, the first of equals; -1: no value is a number. */
function bestOf({ value, lower }) {
    return value.reduce((best, v, i) => Number.isNaN(v) || (best >= 0 && !(lower ? v < value[best] : v > value[best]))
                                            ? best : i, -1);
}

/* Rates and counters have no best value. */
function hasBest(line) {
    return line.side.startsWith("valid") || line.side.startsWith("measured") ||
           /loss|nll|perplexity|accuracy|score/.test(line.series.name);
}

/* The numbers of the charts, also for users who cannot see them. */
function fillLegend(legend, lines) {
    const same = commonStart([...new Set(lines.map(l => l.name))]);
    legend.replaceChildren(...lines.map(line => {
        const { step, value } = line.series, last = value[value.length - 1];
        const best = hasBest(line) ? bestOf(line.series) : -1, name = element("span", { class: "name" });
        setName(name, line.name, same);
        return element("li", { "data-run": line.name, "data-series": line.series.name,
                               "data-count": step.length, "data-step": step[step.length - 1],
                               "data-value": Number.isNaN(last) ? "nan" : last },
                       swatch(line), name,
                       element("span", { class: "side" }, line.side),
                       best < 0 ? null : element("span", { class: "side", title: "at step " + format(step[best]) },
                                                 "best " + format(value[best])),
                       element("span", { class: "last", title: "at step " + format(step[step.length - 1]) },
                               element("span", { class: "side" }, "last "), format(last)));
    }));
}

function drawCharts() {
    const found = collect(), box = $("charts");
    const best = [...new Set([...runs.values()].filter(r => r.on && r.info.best)
                                 .map(r => chartOf(r.info.best.series).key))];
    const groups = sections.map(() => []), several = new Set([...found.values()].map(g => g.kind)).size > 1;
    for (const group of found.values())
        groups[sectionOf(group.key, group.timed, group.lines.map(l => l.side))].push(group);
    const wanted = [];
    groups.forEach((list, i) => {
        list.sort((a, b) => orderOf(a, best) - orderOf(b, best) || a.key.localeCompare(b.key) ||
                            a.part.localeCompare(b.part) || a.kind.localeCompare(b.kind));
        if (!list.length)
            return;
        let part = box.querySelector(`[data-section="${i}"]`);
        if (!part)
            part = element("section", { "data-section": i }, element("h2", {}, sections[i]),
                           element("div", { class: "cards" }));
        wanted.push(part);
        const cards = part.lastChild;
        list.forEach((group, place) => {
            if (!charts.has(group.id))
                charts.set(group.id, makeCard(group));
            const { card, title } = charts.get(group.id);
            setText(title, group.key + (group.part ? " · " + group.part : "") + (several ? " · " + (group.kind || "other") : ""));
            if (cards.children[place] !== card)
                cards.insertBefore(card, cards.children[place] || null);
        });
        while (cards.children.length > list.length)
            cards.lastChild.remove();
    });
    wanted.forEach((part, i) => box.children[i] === part || box.insertBefore(part, box.children[i] || null));
    while (box.children.length > wanted.length)
        box.lastChild.remove();
    for (const [id, made] of charts) {
        if (!found.has(id))
            continue;
        fillLegend(made.legend, found.get(id).lines);
        sayMore(made);
        made.chart.setLines(found.get(id).lines);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Settings of runs, requested once for each run when the table is shown. */
async function askSettings() {
    for (const run of [...runs.values()].filter(r => r.on && !r.settings))
        run.settings = new Map(flatten((await (await ask("api/run?id=" + run.info.id)).json()).settings || {}, "", []));
}

/* Settings that differ between the shown runs. */
function differing(shown) {
    const names = new Set(shown.flatMap(r => [...r.settings.keys()]));
    return [...names].filter(n => new Set(shown.map(r => r.settings.get(n))).size > 1).sort();
}

function bestValues(run) {
    const found = new Map();
    for (const s of run.series)
        if (s.name && s.step.length && !s.repeats && hasBest({ side: chartOf(s.name).side, series: s }) &&
            chartOf(s.name).side.startsWith("valid") && !/\.best_/.test(s.name) && bestOf(s) >= 0)
            found.set(metricName(s.name.split(".").slice(1).join(".")), s.value[bestOf(s)]);
    return found;
}

function tableRows() {
    const shown = [...runs.values()].filter(r => r.on && r.settings).sort(byActivity);
    const settings = differing(shown), values = shown.map(bestValues);
    const chosen = [...new Set(shown.filter(r => r.info.best).map(r => metricName(r.info.best.metric))), "loss"];
    const all = [...new Set(values.flatMap(v => [...v.keys()]))].sort();
    const first = chosen.filter((m, i) => all.includes(m) && chosen.indexOf(m) === i);
    const metrics = [...first, ...all.filter(m => !first.includes(m))];
    const cells = (names, i) => names.map(m => values[i].get(m) ?? "");
    const best = names => names.map(m => "best " + m), rest = metrics.slice(first.length);
    return { head: ["run", "state", "step", ...best(first), ...settings, ...best(rest)], shown,
             numbers: new Set([2, ...metrics.map((_, i) => 3 + i + (i < first.length ? 0 : settings.length))]),
             rows: shown.map((run, i) => [
                 run.info.name, run.info.state || "", run.info.step >= 0 ? run.info.step : "",
                 ...cells(first, i), ...settings.map(n => run.settings.get(n) ?? ""), ...cells(rest, i)]) };
}

async function drawTable() {
    await askSettings();
    const { head, shown, numbers, rows } = tableRows(), number = at => numbers.has(at);
    const cell = (value, at, i) => element("td", { class: number(at) ? "number" : null },
        at ? null : element("i", { class: "dot", style: "background:" + shown[i].color }),
        number(at) && value !== "" ? format(value) : String(value));
    $("table").replaceChildren(
        element("div", { class: "row" }, element("p", { class: "side" },
                    "Best validation values, and settings that differ between the chosen runs."),
                element("button", { type: "button", onclick: () => saveText("runs.csv", [head, ...rows].map(csvRow).join("")) },
                        "download CSV")),
        element("div", { class: "wide" }, element("table", {},
            element("thead", {}, element("tr", {}, ...head.map((h, at) => element("th", { class: number(at) ? "number" : null }, h)))),
            element("tbody", {}, ...rows.map((row, i) => element("tr", {}, ...row.map((v, at) => cell(v, at, i))))))));
}

function drawView() {
    $("charts").hidden = shared.view === "table";
    $("table").hidden = shared.view !== "table";
    return shared.view === "table" ? drawTable() : drawCharts();
}

function redraw() {
    $("whole").disabled = !shared.range && ![...charts.values()].some(c => c.chart.range);
    for (const { card, chart } of charts.values())
        if (card.isConnected)
            chart.draw();
}

/* ---- one run --------------------------------------------------------------------------------- */

const tabs = { overview: "Run", samples: "Samples", settings: "Settings", log: "Log" };

async function show(id) {
    focus = focus === id ? null : id;
    detail = sample = shownSample = null;
    wanted = null;
    $("detail").hidden = focus === null;
    writeAddress();
    listRuns();
    await askDetail();
    requestAnimationFrame(redraw);
}

/* Opens the run of the address, as soon as it is known. */
async function showWanted() {
    const run = wanted && [...runs.values()].find(r => r.info.name === wanted.run);
    if (!run)
        return;
    tab = wanted.tab in tabs ? wanted.tab : "overview";
    turnOn(run, true);
    await show(run.info.id);
}

async function askDetail() {
    if (focus === null)
        return;
    const id = focus, answer = await (await ask("api/run?id=" + id)).json();
    if (id !== focus)
        return;
    const before = JSON.stringify(detail);
    detail = answer;
    if (before !== JSON.stringify(answer))
        drawDetail();
    else if (tab === "samples")
        await drawSample();
}

function drawTabs() {
    $("tabs").replaceChildren(
        ...Object.entries(tabs).filter(([name]) => name !== "samples" || detail.samples.length)
            .map(([name, title]) => element("button", { type: "button", role: "tab",
                "aria-selected": String(name === tab), onclick: () => { tab = name; writeAddress(); drawDetail(); } },
                title)),
        element("button", { type: "button", class: "close", "aria-label": "close",
                            onclick: () => show(focus) }, "✕"));
}

function drawDetail() {
    if (tab === "samples" && !detail.samples.length)
        tab = "overview";
    drawTabs();
    const make = { overview: drawOverview, samples: drawSamples, settings: drawSettings, log: drawLog };
    make[tab]($("pane"));
}

/* Long names may break behind a dot. */
function facts(rows, kind) {
    const list = element("dl", { class: kind });
    for (const [name, value] of rows)
        if (value !== null && value !== undefined && value !== "")
            list.append(element("dt", {}, ...name.split(/(?<=\.)/).flatMap(part => [part, element("wbr")])),
                        element("dd", {}, String(value)));
    return list;
}

function bytes(count) {
    const power = count > 0 ? Math.min(4, Math.floor(Math.log10(count) / 3)) : 0;
    return count > 0 ? Number((count / 1000 ** power).toPrecision(3)) + " " +
                           ["B", "kB", "MB", "GB", "TB"][power] : "";
}

function lastOf(run, pattern) {
    const s = run.series.filter(s => pattern.test(s.name)).pop();
    return s && s.value.length ? s.value[s.value.length - 1] : null;
}

function drawOverview(pane) {
    const run = runs.get(focus), info = run.info, session = detail.sessions[detail.sessions.length - 1] || {};
    const rate = lastOf(run, /\.steps_per_second$/), left = info.steps - info.step;
    const when = seconds => seconds ? new Date(1000 * seconds).toLocaleString() : "";
    const rows = [
        ["state", info.fault || info.state],
        ["step", info.step >= 0 ? format(info.step) + (info.steps > 0 ? " of " + format(info.steps) : "") : ""],
        ["best", info.best ? format(info.best.value) + " " + info.best.metric + " at step " +
                                 format(info.best.step) : ""],
        ["time", formatTime(info.seconds)],
        ["time left", info.state === "running" && rate > 0 && left > 0 ? formatTime(left / rate) : ""],
        ["throughput", [...run.series].filter(s => /_per_second$/.test(s.name) && s.value.length)
             .map(s => format(s.value[s.value.length - 1]) + " " + chartOf(s.name).key.replace(/_per_second/, "/s"))
             .join(", ")],
        ["parameters", detail.parameters ? format(detail.parameters) : ""],
        ["memory planned", bytes(session.memory)],
        ["threads", session.threads],
        ["experiment", (detail.settings || {}).experiment],
        ["machine", [session.host, session.cpu].filter(x => x).join(", ")],
        ["etude", session.version],
        ["began", when(session.began)], ["ended", when(session.ended)],
        ["sessions", detail.sessions.length > 1 ? detail.sessions.length : ""],
        ["directory", detail.path],
    ];
    pane.replaceChildren(element("h2", {}, detail.name),
                         ...detail.warnings.slice(-20).reverse().map(w => element("div", { class: "warning" }, w)),
                         facts(rows));
    if (session.command)
        pane.append(element("h3", {}, "command"), element("pre", {}, ...session.command.flatMap(w => [element("span", { class: "word" }, quoted(w)), " "])));
}

/* Quoted for a shell. */
function quoted(word) {
    return /^[\w.,:\/=@%+-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

function drawSamples(pane) {
    const names = detail.samples, newest = names.length - 1;
    const at = sample === null ? newest : Math.max(0, names.indexOf(sample));
    const label = element("b", {}, names[at]), text = element("ol", { id: "sample" });
    const range = element("input", { type: "range", min: 0, max: newest, value: at, "aria-label": "step",
        oninput: () => {
            sample = Number(range.value) === newest ? null : names[range.value];
            setText(label, names[range.value]);
            drawSample();
        } });
    pane.replaceChildren(element("h2", {}, detail.name),
                         element("div", { class: "row" }, range, label),
                         element("p", { class: "side" }, "Lines that differ from the sample before are marked."),
                         text);
    shownSample = null;
    drawSample();
}

async function readSample(name) {
    return (await (await ask(`api/sample?id=${focus}&name=${encodeURIComponent(name)}`)).text())
        .split("\n").slice(0, -1);
}

/* The newest, unless the user chose another; beside it the one before. */
async function drawSample() {
    const names = detail.samples, name = sample === null ? names[names.length - 1] : sample;
    if (name === shownSample || !$("sample"))
        return;
    shownSample = name;
    const i = names.indexOf(name);
    const [now, before] = await Promise.all([readSample(name), i > 0 ? readSample(names[i - 1]) : []]);
    if (name !== shownSample || !$("sample"))
        return;
    $("sample").replaceChildren(...now.slice(0, 1000).map((line, at) => element(
        "li", { class: i > 0 && line !== before[at] ? "changed" : null }, line)));
}

function flatten(value, path, out) {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
        for (const [key, child] of Object.entries(value))
            flatten(child, path ? path + "." + key : key, out);
    else
        out.push([path, Array.isArray(value) ? JSON.stringify(value) : String(value)]);
    return out;
}

function drawSettings(pane) {
    const all = flatten(detail.settings || {}, "", []), list = element("div");
    const word = element("input", { type: "search", placeholder: "filter settings", oninput: () => fill() });
    const fill = () => list.replaceChildren(facts(all.filter(
        ([name, value]) => (name + " " + value).toLowerCase().includes(word.value.toLowerCase())), "wide"));
    pane.replaceChildren(element("h2", {}, detail.name), element("div", { class: "row" }, word), list);
    fill();
}

function drawLog(pane) {
    const end = pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 20;
    pane.replaceChildren(element("h2", {}, detail.name), element("pre", {}, detail.log.join("\n")));
    if (end)
        pane.scrollTop = pane.scrollHeight;
}

/* ---- again and again -------------------------------------------------------------------------- */

async function refresh() {
    clearTimeout(timer);
    try {
        takeRuns(await (await ask("api/runs")).json());
        const before = updates;
        await askPoints();
        listRuns();
        if (before !== updates || !told++ || drawn !== choice())
            await drawView();
        drawn = choice();
        await (wanted ? showWanted() : askDetail());
        failures = 0;
        say("");
    } catch (error) {
        failures++;
        say(error.status === 401 ? "a token is needed: open the address that `etude watch` printed"
            : error.status ? error.message : "the server does not answer; asking again", true);
    }
    document.body.dataset.updates = updates;
    timer = setTimeout(refresh, document.hidden || failures > 3 ? 5000 : 1000);
}

let drawn = "";

/* What charts depend on, besides points. */
function choice() {
    return [...runs.values()].filter(r => r.on).map(r => r.info.id + r.color).join() + "|" + $("find").value;
}

function say(text, bad) {
    setText($("link"), text);
    $("link").className = bad ? "bad" : "";
}

function chooseAll(on) {
    const word = $("filter").value.toLowerCase();
    for (const run of runs.values())
        if (run.info.name.toLowerCase().includes(word))
            turnOn(run, on);
    keepChoice();
    refresh();
}

function wholeRange() {
    for (const { chart } of charts.values())
        chart.range = null;
    shared.range = null;
    redraw();
}

$("controls").addEventListener("submit", e => e.preventDefault());
$("axis").addEventListener("change", () => { shared.axis = $("axis").value; wholeRange(); drawCharts(); });
$("log").addEventListener("change", () => {
    shared.log = $("log").checked;
    for (const { chart } of charts.values())
        chart.range = null;
    redraw();
});
$("smooth").addEventListener("input", () => {
    shared.smooth = Number($("smooth").value);
    $("smoothed").value = shared.smooth ? shared.smooth.toFixed(2) : "0";
    drawCharts();
});
$("view").addEventListener("change", () => { shared.view = $("view").value; writeAddress(); drawView(); });
$("find").addEventListener("input", drawCharts);
$("filter").addEventListener("input", listRuns);
$("all").addEventListener("click", () => chooseAll(true));
$("none").addEventListener("click", () => chooseAll(false));
$("whole").addEventListener("click", wholeRange);
addEventListener("keydown", e => e.key === "Escape" && wholeRange());
addEventListener("resize", redraw);
addEventListener("hashchange", () => { readAddress(); refresh(); });
document.addEventListener("visibilitychange", () => document.hidden || refresh());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
readAddress();
refresh();
