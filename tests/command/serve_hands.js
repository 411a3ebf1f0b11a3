/* What a person does on the page of `serve` with a translator, and what must come of it; the first
 * thing that goes wrong is in body's data-result. */
function expect(what, is) {
    if (!is)
        throw new Error(what + "; the result is: " + $("result").textContent);
}

const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));

/* Reading a file takes real time, which the browser's virtual time does not wait for. */
const contents = new Map();
Blob.prototype.arrayBuffer = async function () {
    return contents.get(this.name).buffer;
};

async function dropFile(name, bytes) {
    const data = new DataTransfer();
    contents.set(name, Uint8Array.from(bytes));
    data.items.add(new File([], name));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    await pause(50);
}

async function type(text) {
    $("text").value = text;
    $("text").dispatchEvent(new Event("input", { bubbles: true }));
    await pause(2 * PAUSE);
}

async function choose(id, value) {
    $(id).value = value;
    $(id).dispatchEvent(new Event("change", { bubbles: true }));
    await pause(50);
}

async function play() {
    const codes = id => [...$(id).options].map(o => o.value).join(" ");
    expect("sources", codes("source") === "de en" && codes("target") === "en fr");
    await type("ein hund");
    expect("translated while typed", $("result").textContent === "de en  EIN HUND");
    expect("one request", asked.length === 1);
    await choose("target", "fr");
    expect("another target", $("result").textContent === "de fr  EIN HUND");
    expect("through English is said", $("state").textContent.startsWith("through English, "));
    expect("no way back", $("swap").disabled);
    await choose("target", "en");
    $("swap").click();
    await pause(50);
    expect("the other direction", $("source").value === "en" && $("target").value === "de");
    expect("the translation is the text", $("text").value === "de en  EIN HUND");
    await choose("source", "de");
    await type("slow");
    await type("quick");
    expect("the older request ends", asked.at(-2).signal.aborted && $("result").textContent === "de en  QUICK");
    await type("refuse");
    expect("an error is text", $("state").textContent === "<b>no</b>" && $("state").className === "bad");
    await type(" ");
    expect("nothing of nothing", $("result").textContent === "" && asked.at(-1).q === "refuse");

    await dropFile("a.html", new TextEncoder().encode("<p>ein hund</p>"));
    expect("a file has its name", asked.at(-1).name === "a.html");
    expect("markup stays text", $("result").textContent.endsWith("de en a.html <P>EIN HUND</P>"));
    expect("the translated file", $("result").querySelector("a").download === "a.en.html");
    await type("ein hund");
    expect("a typed text is no file", asked.at(-1).name === undefined && !$("result").querySelector("a"));
    await dropFile("b.txt", [255, 254, 0]);
    expect("other bytes are refused", $("state").textContent.includes("not a text in UTF-8"));
}

setTimeout(() => play().then(() => (document.body.dataset.result = "all of it"))
    .catch(error => (document.body.dataset.result = error.message)), 200);
