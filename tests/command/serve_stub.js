/* In place of the server, for the page of `serve` without one: models of de to en and en to fr, which
 * write a text in upper case after the languages. Requests are kept in `asked`. */
const asked = [];
const answers = {
    "/": { run: "runs/a", step: 1000, source: "de", targets: [{ code: "en" }], models: [{}, {}],
           example: "{\"lines\": [\"A dog runs.\"]}", paths: ["POST /translate"] },
    "/languages": [{ code: "de", name: "German", targets: ["en", "fr"] }, { code: "en", name: "English", targets: ["fr", "de"] },
                   { code: "fr", name: "French", targets: [] }] };
window.fetch = async (path, { body, signal }) => {
    const of = body === undefined ? answers[path] : JSON.parse(body);
    if (body !== undefined)
        asked.push({ ...of, signal });
    if (body !== undefined && of.q.includes("slow"))
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new DOMException("", "AbortError"))));
    const value = body === undefined ? of
        : { ...(of.source === "de" && of.target === "fr" ? { through: "en" } : {}),
            translatedText: `${of.source} ${of.target} ${of.name || ""} ${of.q.toUpperCase()}` };
    const refused = body !== undefined && of.q.includes("refuse");
    return { ok: !refused, status: refused ? 400 : 200, statusText: "",
             json: async () => refused ? { error: "<b>no</b>" } : value };
};
