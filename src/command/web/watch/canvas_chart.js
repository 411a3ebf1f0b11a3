/* Charts on a canvas. A line is {x, y, color, dash, name, side}: x and y are arrays of numbers, NaN
 * in y is a gap. All charts share the zoom in x; each chart has its own zoom in y. Ticks are
 * computed here, not by the server: they depend on the width, the zoom, the smoothing and the kind
 * of axis that the browser shows, also after the server has ended. Pictures have ticks from
 * command/runs/axis.c. */

function format(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value))
        return "nan";
    if (value === 0)
        return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4)
        return value.toExponential(size >= 1e6 ? digits - 2 : digits - 1).replace(/\.?0+e/, "e");
    if (Number.isInteger(value))
        return value.toLocaleString("en");
    return String(Number(value.toPrecision(size >= 1000 ? digits + 1 : digits)));
}

/* The labels of ticks, in the first of several forms that gives no label twice. If no form does,
 * they are numbers with enough digits. */
function labelsOf(ticks, forms) {
    const numbers = Array.from({ length: 12 }, (_, more) => t => format(t, 4 + more));
    const all = [...forms, ...numbers].map(form => ticks.map(form));
    return all.find(labels => new Set(labels).size === ticks.length) || all[all.length - 1];
}

function formatTime(seconds) {
    if (seconds === null || !Number.isFinite(seconds))
        return "";
    const s = Math.round(seconds), two = n => String(n).padStart(2, "0");
    if (s < 60)
        return s + " s";
    if (s < 3600)
        return Math.floor(s / 60) + ":" + two(s % 60);
    const text = Math.floor(s % 86400 / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
    return s < 86400 ? text : Math.floor(s / 86400) + " d " + text;
}

/* An exponential moving average, without the bias to 0 at the beginning. */
function smooth(values, weight) {
    if (!weight)
        return values;
    let sum = 0, part = 0;
    return values.map(v => {
        if (!Number.isFinite(v))
            return NaN;
        sum = weight * sum + (1 - weight) * v;
        part = weight * part + (1 - weight);
        return sum / part;
    });
}

/* About `count` multiples of 1, 2 or 5 times a power of ten, from low to high. */
function ticks(low, high, count) {
    const raw = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find(m => m * power >= raw * 0.999);
    const found = [];
    if (!Number.isFinite(step) || step <= 0)
        return [low];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
        found.push(Number((i * step).toPrecision(12)));
    return found;
}

/* At least `least` ticks, if the range has so many. */
function enoughTicks(low, high, least, count) {
    let found = ticks(low, high, count);
    for (let more = count + 1; found.length < least && more < 4 * least; more++)
        found = ticks(low, high, more);
    return found;
}

/* Powers of ten; if there are few of them also 2 and 5 times them. */
function logTicks(low, high, count) {
    const found = [], few = Math.log10(high / low) < 2.2;
    const stride = Math.max(1, Math.ceil(Math.log10(high / low) / Math.max(count, 1)));
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p += stride)
        for (const m of few ? [1, 2, 5] : [1])
            if (m * 10 ** p >= low * 0.999 && m * 10 ** p <= high * 1.001)
                found.push(Number((m * 10 ** p).toPrecision(6)));
    return found.length > 2 ? found : enoughTicks(low, high, 4, count).filter(t => t > 0);
}

function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

class Chart {
    /* shared: {log, smooth, axis, range: [from, to] or null, zoomed: function}. */
    constructor(canvas, shared, tip) {
        Object.assign(this, { canvas, shared, tip, lines: [], range: null, drag: null, at: null });
        canvas.addEventListener("pointerdown", e => this.begin(e));
        canvas.addEventListener("pointermove", e => this.move(e));
        canvas.addEventListener("pointerup", e => this.end(e));
        canvas.addEventListener("pointercancel", () => this.leave());
        canvas.addEventListener("pointerleave", () => this.drag || this.leave());
        canvas.addEventListener("dblclick", () => this.reset());
    }

    reset() {
        this.range = null;
        this.shared.range = null;
        this.shared.zoomed();
    }

    setLines(lines) {
        this.lines = lines.map(l => ({ ...l, smooth: smooth(l.y, this.shared.smooth) }));
        this.draw();
    }

    /* ---- what is shown ---- */

    extent() {
        let [left, right] = this.shared.range || [Infinity, -Infinity];
        let low = Infinity, high = -Infinity;
        if (!this.shared.range)
            for (const l of this.lines)
                if (l.x.length) {
                    left = Math.min(left, l.x[0]);
                    right = Math.max(right, l.x[l.x.length - 1]);
                }
        for (const l of this.lines)
            for (const y of this.shared.smooth ? [l.smooth] : [l.y])
                for (let i = 0; i < y.length; i++)
                    if (l.x[i] >= left && l.x[i] <= right && Number.isFinite(y[i]) &&
                        !(this.shared.log && y[i] <= 0)) {
                        low = Math.min(low, y[i]);
                        high = Math.max(high, y[i]);
                    }
        if (left > right)
            [left, right] = [0, 1];
        if (left === right)
            [left, right] = [left - 1, right + 1];
        if (low > high)
            [low, high] = this.shared.log ? [0.1, 1] : [0, 1];
        return { left, right, ...this.spread(low, high) };
    }

    /* The range of the y axis, with some space above and below. */
    spread(low, high) {
        if (this.range)
            return { low: this.range[0], high: this.range[1] };
        if (this.shared.log) {
            const more = Math.max((high / low) ** 0.05, 1.02);
            return { low: low / more, high: high * more };
        }
        const more = high > low ? 0.06 * (high - low) : Math.abs(high) * 0.1 || 0.5;
        return { low: low - more, high: high + more };
    }

    place() {
        const box = this.canvas.getBoundingClientRect();
        this.width = Math.max(box.width, 60);
        this.height = Math.max(box.height, 60);
        const scale = window.devicePixelRatio || 1;
        const width = Math.round(this.width * scale), height = Math.round(this.height * scale);
        if (this.canvas.width !== width || this.canvas.height !== height)
            Object.assign(this.canvas, { width, height });
        this.ink = this.canvas.getContext("2d");
        this.ink.setTransform(scale, 0, 0, scale, 0, 0);
        this.view = this.extent();
        const v = this.view, rows = Math.max(4, Math.round(this.height / 45));
        this.yTicks = this.shared.log ? logTicks(v.low, v.high, rows)
                                      : enoughTicks(v.low, v.high, 4, rows);
        this.ink.font = "11.5px system-ui, sans-serif";
        this.yLabels = labelsOf(this.yTicks, []);
        this.left = 8 + Math.max(...this.yLabels.map(text => this.ink.measureText(text).width), 10);
        this.bottom = this.height - 32;
    }

    px(x) {
        const v = this.view;
        return this.left + (x - v.left) / (v.right - v.left) * (this.width - this.left - 8);
    }

    py(y) {
        const v = this.view;
        const part = this.shared.log ? Math.log(y / v.low) / Math.log(v.high / v.low)
                                     : (y - v.low) / (v.high - v.low);
        return this.bottom - part * (this.bottom - 6);
    }

    value(px, py) {
        const v = this.view, part = (this.bottom - py) / (this.bottom - 6);
        return { x: v.left + (px - this.left) / (this.width - this.left - 8) * (v.right - v.left),
                 y: this.shared.log ? v.low * (v.high / v.low) ** part
                                    : v.low + part * (v.high - v.low) };
    }

    /* ---- drawing ---- */

    /* The forms of a label on the x axis; the tip uses the first. */
    formsX() {
        const days = this.view.right - this.view.left > 100000;
        const clock = print => x => print(new Date(1000 * x));
        return {
            step: [x => format(x)],
            time: [x => formatTime(x) || "0"],
            clock: [clock(at => days ? at.toLocaleDateString() : at.toLocaleTimeString()),
                    clock(at => at.toLocaleString()),
                    clock(at => at.toISOString().slice(11, 23) + " UTC")],
        }[this.shared.axis];
    }

    grid() {
        const ink = this.ink, many = Math.max(2, Math.floor((this.width - this.left) / 85));
        ink.clearRect(0, 0, this.width, this.height);
        ink.lineWidth = 1;
        ink.strokeStyle = color("--grid");
        ink.fillStyle = color("--soft");
        ink.textAlign = "right";
        ink.textBaseline = "middle";
        for (const [i, t] of this.yTicks.entries()) {
            const y = Math.round(this.py(t)) + 0.5;
            ink.beginPath();
            ink.moveTo(this.left, y);
            ink.lineTo(this.width - 8, y);
            ink.stroke();
            ink.fillText(this.yLabels[i], this.left - 5, y);
        }
        ink.textBaseline = "alphabetic";
        ink.textAlign = "center";
        let end = -Infinity;
        const xTicks = this.xTicks(many), xLabels = labelsOf(xTicks, this.formsX());
        for (const [i, t] of xTicks.entries()) {
            const text = xLabels[i], half = ink.measureText(text).width / 2;
            const x = Math.min(Math.max(this.px(t), this.left + half), this.width - half - 1);
            if (x - half < end + 6)
                continue;
            end = x + half;
            ink.fillText(text, x, this.height - 18);
        }
        ink.fillText({ step: "step", time: "time since start", clock: "time of day" }[this.shared.axis],
                     (this.left + this.width - 8) / 2, this.height - 4);
    }

    /* Four or more labels, in a short run too; a run of one point has one. */
    xTicks(many) {
        const { left, right } = this.view, points = new Set(this.lines.flatMap(l => l.x.slice(0, 2)));
        if (points.size === 1)
            return [...points];
        const found = enoughTicks(left, right, 4, many);
        return this.shared.axis === "step" ? found.filter(Number.isInteger) : found;
    }

    /* Of many points in a column of pixels only the least and the greatest are drawn. */
    trace(x, y) {
        const ink = this.ink, dense = x.length > 4 * this.width;
        let pen = false, column = -1, least = 0, most = 0;
        ink.beginPath();
        for (let i = 0; i < x.length; i++) {
            if (!Number.isFinite(y[i]) || (this.shared.log && y[i] <= 0)) {
                pen = false;
                continue;
            }
            const at = this.px(x[i]), height = this.py(y[i]);
            if (dense && pen && Math.floor(at) === column) {
                if (height < least || height > most)
                    ink.lineTo(at, height);
                least = Math.min(least, height);
                most = Math.max(most, height);
                continue;
            }
            [column, least, most] = [Math.floor(at), height, height];
            pen ? ink.lineTo(at, height) : ink.moveTo(at, height);
            pen = true;
        }
        ink.stroke();
    }

    draw() {
        this.place();
        this.grid();
        const ink = this.ink;
        ink.save();
        ink.beginPath();
        ink.rect(this.left - 3, 0, this.width - this.left + 3, this.bottom + 2);
        ink.clip();
        ink.lineJoin = "round";
        for (const l of this.lines) {
            ink.strokeStyle = ink.fillStyle = l.color;
            ink.setLineDash([]);
            ink.lineWidth = 1;
            if (this.shared.smooth) {
                ink.globalAlpha = 0.22;
                this.trace(l.x, l.y);
                ink.globalAlpha = 1;
            }
            ink.setLineDash(l.dash);
            ink.lineWidth = 1.8;
            this.trace(l.x, l.smooth);
            ink.setLineDash([]);
            if (l.x.length < 30)
                this.dots(l);
        }
        ink.restore();
        this.overlay();
    }

    dots(l) {
        for (let i = 0; i < l.x.length; i++)
            if (Number.isFinite(l.smooth[i]) && !(this.shared.log && l.smooth[i] <= 0)) {
                this.ink.beginPath();
                this.ink.arc(this.px(l.x[i]), this.py(l.smooth[i]), 2.2, 0, 7);
                this.ink.fill();
            }
    }

    overlay() {
        const ink = this.ink;
        if (this.drag && this.drag.far) {
            const d = this.drag, flat = !d.both;
            ink.fillStyle = color("--mark");
            ink.globalAlpha = 0.15;
            ink.fillRect(Math.min(d.x, d.nowX), flat ? 0 : Math.min(d.y, d.nowY),
                         Math.abs(d.nowX - d.x), flat ? this.bottom : Math.abs(d.nowY - d.y));
            ink.globalAlpha = 1;
        } else if (this.at) {
            ink.strokeStyle = color("--soft");
            ink.globalAlpha = 0.5;
            ink.beginPath();
            ink.moveTo(this.at.x, 0);
            ink.lineTo(this.at.x, this.bottom);
            ink.stroke();
            ink.globalAlpha = 1;
            for (const hit of this.at.hits) {
                ink.fillStyle = hit.line.color;
                ink.beginPath();
                ink.arc(this.px(hit.x), this.py(hit.y), 3.5, 0, 7);
                ink.fill();
            }
        }
    }

    /* ---- pointing ---- */

    begin(e) {
        if (e.button || e.pointerType === "touch" || !this.view)
            return;
        this.canvas.setPointerCapture(e.pointerId);
        this.drag = { x: e.offsetX, y: e.offsetY, nowX: e.offsetX, nowY: e.offsetY, far: false };
    }

    move(e) {
        if (!this.view)
            return;
        if (this.drag) {
            const d = this.drag;
            [d.nowX, d.nowY] = [e.offsetX, e.offsetY];
            d.far ||= Math.abs(d.nowX - d.x) > 5;
            d.both = Math.abs(d.nowY - d.y) > 0.25 * this.height;
            this.tip.hidden = true;
        } else {
            this.point(e);
        }
        this.draw();
    }

    end() {
        const d = this.drag;
        this.drag = null;
        if (!d || !d.far)
            return;
        const a = this.value(d.x, d.y), b = this.value(d.nowX, d.nowY);
        this.shared.range = [Math.min(a.x, b.x), Math.max(a.x, b.x)];
        this.range = d.both ? [Math.min(a.y, b.y), Math.max(a.y, b.y)] : null;
        this.at = null;
        this.shared.zoomed();
    }

    leave() {
        this.drag = this.at = null;
        this.tip.hidden = true;
        if (this.view)
            this.draw();
    }

    /* The nearest point of each line, the nearest lines first. */
    point(e) {
        const want = this.value(e.offsetX, e.offsetY).x, hits = [];
        for (const line of this.lines) {
            let low = 0, high = line.x.length - 1;
            while (low < high) {
                const half = (low + high) >> 1;
                line.x[half] < want ? low = half + 1 : high = half;
            }
            const i = low && want - line.x[low - 1] < line.x[low] - want ? low - 1 : low;
            const y = line.smooth[i];
            if (Number.isFinite(y) && Math.abs(this.px(line.x[i]) - e.offsetX) < 60)
                hits.push({ line, x: line.x[i], y, raw: line.y[i],
                            far: Math.abs(this.py(y) - e.offsetY) });
        }
        hits.sort((a, b) => a.far - b.far);
        this.at = hits.length ? { x: this.px(hits[0].x), hits: hits.slice(0, 12) } : null;
        this.showTip(e);
    }

    showTip(e) {
        this.tip.hidden = !this.at;
        if (!this.at)
            return;
        const title = document.createElement("b"), [form] = this.formsX();
        title.textContent = (this.shared.axis === "step" ? "step " : "") + form(this.at.hits[0].x);
        this.tip.replaceChildren(title, ...this.at.hits.map(hit => {
            const row = document.createElement("div"), [mark, name, last] =
                ["i", "span", "span"].map(tag => row.appendChild(document.createElement(tag)));
            mark.style.background = hit.line.color;
            name.textContent = hit.line.name + (hit.line.side ? " · " + hit.line.side : "");
            last.className = "last";
            last.textContent = format(hit.y) +
                               (hit.y === hit.raw ? "" : "  (" + format(hit.raw) + ")");
            return row;
        }));
        const box = this.tip.getBoundingClientRect();
        const x = e.clientX + 16 + box.width > innerWidth ? e.clientX - box.width - 12 : e.clientX + 16;
        const y = Math.min(e.clientY + 12, innerHeight - box.height - 6);
        this.tip.style.left = Math.max(x, 4) + "px";
        this.tip.style.top = Math.max(y, 4) + "px";
    }
}
