/* What a person does on the page of `watch`, and what must come of it; what goes wrong first stands
 * in body's data-result. */
function expect(what, is) {
    if (!is)
        throw new Error(what);
}

function point(canvas, kind, x, y) {
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent(kind, { bubbles: true, pointerId: 1, pointerType: "mouse",
        clientX: box.left + x * box.width, clientY: box.top + y * box.height }));
}

/* Pixels of a color, about. */
function inked(canvas, hex) {
    const want = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
        count += data[i + 3] > 200 && want.every((c, k) => Math.abs(c - data[i + k]) < 12);
    return count;
}

function change(id, set, kind) {
    set($(id));
    $(id).dispatchEvent(new Event(kind, { bubbles: true }));
}

function play() {
    const { chart, card } = charts.get("translation|loss"), canvas = chart.canvas, run = runs.get(0);
    canvas.setPointerCapture = () => {};
    expect("a chart for each value and kind of run", document.querySelectorAll(".card").length === 4);
    expect("a curve is drawn", inked(canvas, run.color) > 100);
    expect("from the first step to the last", chart.view.left === 10 && chart.view.right === 1000);

    for (const [kind, x] of [["pointerdown", 0.5], ["pointermove", 0.6], ["pointermove", 0.9],
                             ["pointerup", 0.9]])
        point(canvas, kind, x, 0.5);
    expect("zoomed in x", shared.range && shared.range[0] > 300 && shared.range[1] < 980);
    expect("what is seen fills the height", chart.view.high < 3);
    expect("all charts are zoomed", charts.get("translation|learning_rate").chart.view.left === shared.range[0]);
    expect("it can be undone", !$("whole").disabled);
    point(canvas, "pointerdown", 0.3, 0.2);
    point(canvas, "pointermove", 0.7, 0.8);
    point(canvas, "pointerup", 0.7, 0.8);
    expect("zoomed in y as well", chart.range && chart.view.low === chart.range[0]);
    dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
    expect("the whole again", !shared.range && !chart.range && chart.view.left === 10);

    const high = chart.view.high;
    change("log", e => { e.checked = true; }, "change");
    expect("a log scale", chart.yTicks.includes(0.1) && chart.yTicks.includes(1) && chart.view.low > 0);
    expect("equal ratios are equal heights",
           Math.abs(chart.py(0.1) - chart.py(1) - (chart.py(1) - chart.py(10))) < 0.01);
    expect("what is not positive is left out", charts.get("translation|learning_rate").chart.view.low > 0);
    change("log", e => { e.checked = false; }, "change");
    expect("a plain scale", chart.view.high === high);

    change("smooth", e => { e.value = 0.9; }, "input");
    let sum = 0, part = 0;
    for (const y of chart.lines[0].y)
        [sum, part] = [0.9 * sum + 0.1 * y, 0.9 * part + 0.1];
    expect("smoothed", Math.abs(chart.lines[0].smooth[99] - sum / part) < 1e-12);
    expect("the first as it is", chart.lines[0].smooth[0] === 8);
    change("smooth", e => { e.value = 0; }, "input");

    point(canvas, "pointermove", 0.5, 0.5);
    expect("a tip", !$("tip").hidden && /^step \d+a · train\d/.test($("tip").textContent));
    point(canvas, "pointerleave", 0.5, 0.5);
    expect("no tip", $("tip").hidden);

    change("axis", e => { e.value = "time"; }, "change");
    expect("by time", chart.view.left === 0 && chart.view.right === 99);
    change("axis", e => { e.value = "step"; }, "change");
    change("find", e => { e.value = "rate"; }, "input");
    expect("found by name", document.querySelectorAll(".card").length === 1 && !card.isConnected);
    change("find", e => { e.value = ""; }, "input");
    expect("all again", document.querySelectorAll(".card").length === 4);
    expect("numbers for people", format(1234567) === "1.23e+6" && format(0.00001) === "1e-5" &&
           format(0.5) === "0.5" && format(12345) === "12,345" && format(NaN) === "nan");
    expect("times for people", formatTime(59) === "59 s" && formatTime(61) === "1:01" &&
           formatTime(3661) === "1:01:01" && formatTime(90061) === "1 d 1:01:01");
}

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const rowOf = name => document.querySelector(`#runs li[data-run="${name}"]`);
const barOf = name => rowOf(name).querySelector(".bar i").style.width;

function lookAtList() {
    expect("no step yet", rowOf("waits").textContent.includes("no step yet") && barOf("waits") === "0%");
    expect("stopped early is done", rowOf("early").textContent.includes("stopped early at 30") &&
           barOf("early") === "100%");
    expect("half way", barOf("a") === "50%");
    expect("a best value has its name", rowOf("early").querySelector(".best").textContent === "best auc 0.9");
    expect("the filter says what it is", $("find").placeholder === "filter charts");
}

function lookAtCharts() {
    const tabular = charts.get("tabular|loss"), auc = charts.get("tabular|auc");
    expect("kinds of runs have charts of their own", tabular.chart.lines.length === 1 &&
           tabular.title.textContent === "loss · tabular");
    expect("four labels an axis", tabular.chart.yTicks.length >= 4 && auc.chart.yTicks.length >= 4);
    expect("best values in legends", auc.legend.textContent.includes("best 0.9") &&
           tabular.legend.textContent.includes("best 1"));
    expect("no best of a rate", !charts.get("translation|learning_rate").legend.textContent.includes("best"));
    expect("points as a file", pointsAsCsv(auc.chart.lines).split("\r\n")[2] ===
           "early,validation.validation_auc,20,2,0.9");
    expect("no formula in a file", csvRow(["=1+1", "a,b", -1]) === "'=1+1,\"a,b\",-1\r\n");
}

/* Runs that start later: colors stay, the legend says that there is more. */
async function otherRunsStart() {
    const before = runs.get(0).color, early = runs.get(1).color;
    canned["api/runs"].runs.push(...more);
    await refresh();
    turnOn(runs.get(1), false);
    more.forEach(({ id }) => turnOn(runs.get(id), true));
    turnOn(runs.get(1), true);
    await refresh();
    expect("a run keeps its color", runs.get(0).color === before && runs.get(1).color === early);
    expect("no color twice", new Set([...runs.values()].filter(r => r.on).map(r => r.color)).size ===
           [...runs.values()].filter(r => r.on).length);
    const { card, more: button, legend } = charts.get("translation|loss");
    expect("the legend says that there is more", !button.hidden && button.textContent === "show 3 more" &&
           getComputedStyle(legend.children[5]).display === "none");
    button.click();
    expect("all of it", card.classList.contains("open") && button.textContent === "show fewer" &&
           getComputedStyle(legend.children[5]).display !== "none");
}

async function lookAtTable() {
    change("view", e => { e.value = "table"; }, "change");
    await pause(200);
    const head = [...document.querySelectorAll("#table th")].map(h => h.textContent);
    expect("best values beside settings that differ", $("charts").hidden &&
           head.join() === "run,state,step,best auc,runtime.seed");
    const rows = [...document.querySelectorAll("#table tbody tr")].map(r => r.textContent);
    expect("a row a run", rows.some(r => r === "earlydone300.92"));
    change("view", e => { e.value = "charts"; }, "change");
}

/* Quantiles are curves with colors of their own, targets have charts of their own. */
async function lookAtLate() {
    canned["api/runs"].runs.push(...late);
    await refresh();
    [...runs.values()].forEach(r => turnOn(r, r.info.id >= 20));
    await refresh();
    const below = charts.get("tabular|below|price"), colors = below.chart.lines.map(l => l.color);
    expect("two quantiles of a target", colors.length === 2 && new Set([...colors, runs.get(20).color]).size === 3 &&
           below.title.textContent === "below · price" && below.legend.textContent.includes("validation q0.9"));
    expect("a quantile without a target", charts.get("tabular|below").chart.lines.length === 1);
    expect("targets have charts of their own", charts.get("tabular|rmse|price").chart.lines.length === 1 &&
           charts.get("tabular|rmse|days").chart.lines.length === 1 && !charts.has("tabular|rmse"));
    const name = below.legend.querySelector(".name");
    expect("a name is whole, and on hover", name.textContent === late[0].name && name.title === late[0].name);
    expect("its end stays", name.lastChild.textContent.endsWith("seed-1") && name.lastChild.textContent.length <= 12 &&
           getComputedStyle(name.lastChild).flexShrink === "0");
    expect("first values", rowOf(late[1].name).textContent.includes("first values at step 5,000,000") &&
           $("waits").textContent === late[1].name + ": first values at step 5,000,000" && !$("waits").hidden);
    expect("some are ticked", $("why").textContent.startsWith("2 of 12 runs are ticked") && !$("why").hidden);
    rowOf("a").querySelector("input").click();
    await refresh();
    expect("the user chose", $("why").hidden);
}

setTimeout(async () => {
    try {
        lookAtList();
        lookAtCharts();
        play();
        await otherRunsStart();
        await lookAtTable();
        await lookAtLate();
        document.body.dataset.result = "all of it";
    } catch (error) {
        document.body.dataset.result = error.message;
    }
}, 500);
