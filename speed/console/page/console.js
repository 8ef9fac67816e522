// The page of the console. It holds no markup: each element is made here, and each text is set as text.

const KEY = "key", THEME = "theme", THEMES = ["system", "light", "dark"];
const view = document.querySelector("#view"), pulse = document.querySelector("#pulse");
const store = {
  get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* it is for this page only, then */ } },
};

// --- elements ---

// What would act on its surroundings, as turning their direction: shown by its number.
const ACTING = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
const words = (text) => String(text).replace(ACTING, (c) => c === "\n" ? c : `\\u${c.codePointAt(0).toString(16).padStart(4, "0")}`);
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : words(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : document.createTextNode(words(child)));
    }
  }
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Make `old` like `made`, and keep what is the same: focus, selection and scrolling stay where they are.
function morph(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName || old.id !== made.id) {
    old.replaceWith(made);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  if (old.nodeName === "OUTPUT") return; // what an action said stays
  for (const { name } of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const before = [...old.childNodes], after = [...made.childNodes];
  after.forEach((child, place) => place < before.length ? morph(before[place], child) : old.append(child));
  before.slice(after.length).forEach((child) => child.remove());
}

function show(...children) {
  const made = view.cloneNode(false);
  fill(made, {}, children);
  morph(view, made);
}

// --- figures ---

const round = (value) => value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
const number = (value) => typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 2 }) : value ?? "–";
const rate = (value) => !value ? "0" : value < 0.01 ? "< 0.01" : value < 100 ? value.toFixed(2) : number(Math.round(value));
const percent = (share) => !share ? "0 %" : share < 0.001 ? "< 0.1 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${round(value * 1e3)} ms`;
  if (value < 60) return `${round(value)} s`;
  const minutes = Math.floor(value / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  return minutes < 60 ? `${minutes} min` : hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${days} days`;
}
const age = (value) => value < 1 ? "< 1 s" : value < 60 ? `${value.toFixed(0)} s` : seconds(value);
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  for (; value >= 1024 && place < units.length - 1; place++) value /= 1024;
  return `${place ? value.toFixed(1) : number(Math.round(value))} ${units[place]}`;
}
const since = (at) => age(Math.max(0, Date.now() / 1000 - at));
const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");
const moment = (at) => new Date(at * 1000).toLocaleString("sv-SE");
const day = (at) => moment(at).slice(0, 10);
const when = (at) => day(at) === day(Date.now() / 1000) ? clock(at) : moment(at);

// --- parts ---

// A name may break behind its dots, before it breaks elsewhere.
const dotted = (name) => name.split(/(?<=\.)/).flatMap((part) => [part, h("wbr")]);
const link = (to, text = to) => h("a", { href: `#/${to}` }, dotted(text));
const at = (...parts) => parts.map(encodeURIComponent).join("/");
const code = (text) => h("code", { dir: "ltr" }, text);
// What stands in backticks is a command.
const marked = (text) => String(text ?? "").split("`").map((part, place) => place % 2 ? code(part) : part);
const nothing = (text) => h("p", { class: "nothing" }, marked(text));
const section = (title, ...children) => h("section", { "aria-label": title }, h("h2", {}, title), children);
const MARKS = { broken: "✕", warning: "!", ok: "✓" };
const state = (kind, text = kind) => h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, MARKS[kind] ?? "·"), ` ${text}`);

// A column: its title, what a row has in it, and whether that is a figure, or is left out on a phone.
const column = (title, cell, kind = "") => ({ title, cell, kind });
const figure = (title, cell, kind = "") => column(title, cell, `figure ${kind}`);
function table(name, columns, rows, grouped = null) {
  const head = h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", class: one.kind }, one.title))));
  const line = (row) => h("tr", {}, columns.map((one, place) => place
    ? h("td", { class: one.kind }, one.cell(row))
    : h("th", { scope: "row", class: one.kind }, one.cell(row))));
  const groups = grouped ? families(rows, grouped) : new Map([["", rows]]);
  const bodies = [...groups].map(([group, members]) => h("tbody", {},
    group ? h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: columns.length }, group, h("small", {}, ` ${members.length}`))) : null,
    members.map(line)));
  return h("table", {}, h("caption", { class: "hidden" }, name), head, bodies);
}
function groupBy(rows, key) {
  const groups = new Map();
  for (const row of rows) groups.set(key(row), [...groups.get(key(row)) ?? [], row]);
  return groups;
}
// Rows that share a key; those that are alone with theirs come first, without one.
function families(rows, key) {
  const groups = groupBy(rows, key);
  const alone = [...groups].filter(([group, members]) => !group || members.length < 2);
  const first = rows.filter((row) => alone.some(([group]) => group === key(row)));
  return new Map([["", first], ...[...groups].filter((one) => !alone.some(([group]) => group === one[0]))]);
}
const facts = (...pairs) => h("dl", {}, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
const findings = (found) => h("ul", { class: "findings" }, found.map((one) => h("li", { class: one.state },
  h("div", {}, state(one.state), " ", h("strong", {}, one.check)), h("div", {}, marked(one.found)),
  one.todo ? h("div", { class: "cure" }, "→ ", marked(one.todo)) : null)));

// --- asking ---

class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}
const secret = () => ({ "X-Speed-Key": store.get(KEY) ?? "" });
const TOO_MANY = "too many pages look at this root: close some";
async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  const headers = { ...secret(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  const answer = await fetch(`/api/${path}`, { ...options, headers, signal: AbortSignal.timeout(40_000) });
  const value = await answer.json().catch(() => ({ error: answer.status === 503 ? TOO_MANY : `speedd answers ${answer.status}` }));
  if (!answer.ok) throw new Refused(answer.status, value.error);
  return value;
}

// --- views: each asks, and gives what is shown ---

const may = { act: false, name: "speedd" }; // what this console may do, and the node that it asks as
function learn(found) {
  Object.assign(may, { act: found.actions, name: found.speedd });
  document.querySelector("#root").textContent = words(found.root);
}
async function overview() {
  const found = await ask("overview");
  learn(found);
  const up = found.nodes.filter((one) => ["up", "self"].includes(one.state)).length;
  const sum = (key) => found.nodes.reduce((total, one) => total + (one[key] ?? 0), 0);
  return [
    h("h1", {}, "Overview"),
    facts(["Nodes", `${number(found.nodes.length)}`], ["Answering", number(up)], ["Calls a second", rate(sum("callsPerSecond"))],
      ["Running", number(sum("runningRequests"))], ["Waiting", number(sum("queuedRequests"))]),
    section("What is wrong", found.findings.length ? findings(found.findings) : nothing(found.look ? "Nothing that speedd sees." : "speedd looks for the first time.")),
    section("Nodes", table("Nodes", NODE_COLUMNS, found.nodes, (one) => one.group)),
    found.flows.length ? section("Who writes to whom", table("Who writes to whom", FLOW_COLUMNS, found.flows)) : null,
    h("p", { class: "foot" }, `speedd ${found.version}, node ${found.speedd}; `, found.actions ? "this console may act." : "this console looks only."),
  ];
}
const STATES = { up: ["ok", "up"], self: ["ok", "speedd"], silent: ["broken", "no answer"], closed: ["none", "no grant"] };
const nodeState = (one) => state(...STATES[one.state] ?? ["none", one.state]);
const NODE_COLUMNS = [
  column("Node", (one) => link(at("nodes", one.name), one.name)),
  column("State", nodeState),
  figure("Calls/s", (one) => rate(one.callsPerSecond)),
  figure("Errors", (one) => percent(one.errorShare)),
  figure("Running", (one) => one.workers ? `${number(one.runningRequests)} of ${number(one.workers)}` : "–", "wide"),
  figure("Waiting", (one) => number(one.queuedRequests)),
  figure("In lanes", (one) => one.inLanes ? number(one.inLanes.messages) : "", "wide"),
  figure("Up", (one) => since(one.startedAt), "wide"),
  column("Language", (one) => one.language, "wide"),
  column("Process", (one) => `${one.pid} on ${one.host}`, "wide"),
];
const FLOW_COLUMNS = [
  column("From", (one) => link(at("nodes", one.sender), one.sender)),
  column("To", (one) => link(at("nodes", one.receiver), one.receiver)),
  figure("Envelopes/s", (one) => rate(one.messagesPerSecond)),
  figure("Bytes/s", (one) => bytes(one.bytesPerSecond), "wide"),
  figure("Refused", (one) => number(one.refused)),
];

async function node(name) {
  const found = await ask(at("nodes", name));
  const pairs = (values) => Object.entries(values).filter(([, value]) => value);
  const listed = (values) => values.length ? values.map((one) => [code(one), " "]) : "nobody";
  const counted = (title, values, what) => pairs(values).length ? section(title, table(title,
    [column(what, ([key]) => key), figure("Number", ([, value]) => number(value))], pairs(values))) : null;
  return [
    h("p", { class: "path" }, link("overview", "Nodes"), " / "),
    h("h1", {}, found.name, " ", nodeState(found)),
    found.state === "closed" ? nothing(`This node lets speedd see nothing of its work: allow it there, or see \`.observers\` of the root.`) : null,
    facts(["Calls a second", rate(found.callsPerSecond)], ["Errors", percent(found.errorShare)],
      ["Running", found.workers ? `${number(found.runningRequests)} of ${number(found.workers)}` : "–"],
      ["Waiting", number(found.queuedRequests)], ["Up for", since(found.startedAt)], ["Last heartbeat", `${since(found.lastHeartbeatAt)} ago`]),
    section("Services", found.services.length ? table("Services", SERVICE_COLUMNS.slice(1), found.services) : nothing("None that speedd sees."),
      h("p", {}, link(at("try", found.name), "Describe and try"))),
    section("Who may write to it", facts(["Allowed", listed(found.allow)], ["Identities", listed(found.identities)],
      ["Denied", listed(found.deny)], ["Subscribes to", found.subscriptions.length ? found.subscriptions.map((one) => [code(one), " "]) : "nothing"])),
    found.lanes.length ? section("What waits in its lanes", table("What waits in its lanes", LANE_COLUMNS, found.lanes)) : null,
    counted("Refused by it", found.refusedSenders, "Sender"),
    counted("Refused to it", found.refusedBy, "Receiver"),
    counted("Events", found.counters, "Event"),
    section("Dead letters", found.deadLetters.length ? table("Dead letters", LETTER_COLUMNS, found.deadLetters) : nothing("None.")),
    section("Process", facts(["Process", `${found.pid} on ${found.host}`], ["Language", `${found.language} ${found.version}`],
      ["Generation", number(found.generation)], ["Lease", seconds(found.leaseSeconds)], ["Fabrics", found.fabrics.join(" ") || "none"],
      ["Identity", found.identity ? code(found.identity) : "none"])),
  ];
}
const LANE_COLUMNS = [
  column("From", (one) => one.sender),
  figure("Messages", (one) => number(one.messages)),
  figure("Oldest", (one) => seconds(one.oldestSeconds)),
  figure("Size", (one) => bytes(one.bytes), "wide"),
];
const LETTER_COLUMNS = [
  figure("Number", (one) => one.number),
  column("From", (one) => one.source ?? "–"),
  column("Why", (one) => one.damaged ? `damaged: ${one.damaged}` : one.error),
  column("When", (one) => one.diedAt ? when(one.diedAt) : "–", "wide"),
  figure("Size", (one) => bytes(one.bytes), "wide"),
  column("", (one) => may.act && one.state === "letter" ? h("form", { id: `retry-${one.number}`, "data-act": "retry", "data-node": one.node, "data-number": one.number, "aria-label": `Retry ${one.number}` }, h("button", {}, "Retry"), h("output", {})) : one.state === "letter" ? "" : "is tried again"),
];
const SERVICE_COLUMNS = [
  column("Service", (one) => [link(at("nodes", one.node), one.node), " ", one.service]),
  column("Service", (one) => one.service),
  figure("Calls/s", (one) => rate(one.callsPerSecond)),
  figure("Errors", (one) => percent(one.errorShare)),
  figure("Half within", (one) => seconds(one.runP50Seconds), "wide"),
  figure("99 % within", (one) => seconds(one.runP99Seconds)),
  figure("Waited, 99 %", (one) => seconds(one.waitedP99Seconds), "wide"),
  figure("Late", (one) => number(one.timedOut), "wide"),
  figure("Calls", (one) => number(one.total.calls), "wide"),
  column("Last error", (one) => one.lastError || "–", "wide"),
];

const LEVELS = [1e-3, 1e-2, 1e-1, 1], LEVEL_NAMES = ["≤ 1 ms", "≤ 10 ms", "≤ 100 ms", "≤ 1 s", "> 1 s"];
const level = (time) => { const place = LEVELS.findIndex((most) => time <= most); return place < 0 ? LEVELS.length : place; };
function heat(row, minutes) {
  const known = row.p99.map((time, place) => [time, minutes[place]]).filter(([time]) => time !== null);
  const [worst, when] = known.reduce((most, one) => one[0] > most[0] ? one : most, [0, 0]);
  const bars = row.p99.map((time, place) => {
    if (time === null) return null;
    const height = 4 + 4 * level(time);
    return svg("rect", { class: `heat${level(time)}`, x: place * 4, y: 20 - height, width: 3, height },
      svg("title", {}, `${clock(minutes[place])}: 99 % within ${seconds(time)}`));
  });
  return svg("svg", { viewBox: "0 0 240 20", preserveAspectRatio: "none", role: "img", class: "heat",
    "aria-label": `${known.length} minutes with calls; slowest at ${clock(when)}: 99 % within ${seconds(worst)}` }, bars);
}
async function services(name, service) {
  if (service !== undefined) return week(name, service);
  const found = await ask("services");
  const { minutes } = found, last = minutes[minutes.length - 1];
  const worst = (row) => Math.max(...row.p99.filter((time) => time !== null));
  return [
    h("h1", {}, "Services"),
    section("Now", found.services.length ? table("Services now", SERVICE_COLUMNS.filter((_, place) => place !== 1), found.services) : nothing("No service that speedd sees.")),
    section("The last hour",
      h("p", { class: "legend" }, "99 % of calls within, minute by minute:", LEVEL_NAMES.map((name, place) => h("span", {},
        svg("svg", { viewBox: "0 0 8 20", class: "key", "aria-hidden": "true" },
          svg("rect", { class: `heat${place}`, x: 0, y: 16 - 4 * place, width: 8, height: 4 + 4 * place })), ` ${name} `))),
      found.heat.length ? table("Times of the last hour", [
        column("Service", (row) => link(at("services", row.node, row.service), `${row.node} ${row.service}`)),
        column(`${clock(minutes[0]).slice(0, 5)} to ${clock(last).slice(0, 5)}`, (row) => heat(row, minutes), "chart"),
        figure("Slowest", (row) => seconds(worst(row))),
        figure("Calls", (row) => number(Math.round(row.calls)), "wide"),
      ], found.heat) : nothing("No call was seen yet.")),
  ];
}

async function week(name, service) {
  const found = await ask(`history?${new URLSearchParams({ node: name, service })}`);
  const days = [...groupBy(found.points, (point) => day(point.at))];
  const sum = (points, key) => points.reduce((total, point) => total + point[key], 0);
  const worst = (points, key) => Math.max(...points.map((point) => point[key] ?? 0));
  return [
    h("p", { class: "path" }, link("services", "Services"), " / "),
    h("h1", {}, `${name} ${service}`),
    section("The last week", !found.kept ? nothing("speedd keeps a week where `history` of [console] names a file.")
      : days.length ? table("The last week", [
        column("Day", ([, points]) => day(points[0].at)),
        figure("Calls", ([, points]) => number(Math.round(sum(points, "calls")))),
        figure("Errors", ([, points]) => percent(sum(points, "errors") / sum(points, "calls"))),
        figure("Half within, at worst", ([, points]) => seconds(worst(points, "p50")), "wide"),
        figure("99 % within, at worst", ([, points]) => seconds(worst(points, "p99"))),
      ], days) : nothing("No quarter of an hour is over yet.")),
    h("p", {}, link(at("nodes", name), `The node ${name}`)),
  ];
}

async function bridges() {
  const found = await ask("bridges");
  return [
    h("h1", {}, "Bridges and gateway"),
    section("Bridges", found.bridges.length ? table("Bridges", [
      column("Bridge", (one) => one.bridge),
      column("State", (one) => one.trouble ? state("warning", one.state) : state("ok", one.state)),
      column("From", (one) => one.source, "wide"), column("To", (one) => one.target, "wide"),
      column("Topics", (one) => one.topics, "wide"),
      figure("Waiting", (one) => number(one.lag)), figure("Carried", (one) => number(one.carried)),
      figure("Dead", (one) => number(one.dead), "wide"), figure("Dropped", (one) => number(one.dropped), "wide"),
    ], found.bridges) : nothing("speedd has no bridges: see [[bridge]] of its configuration."),
    found.bridges.filter((one) => one.trouble).map((one) => findings([{ state: "warning", check: one.bridge, found: one.trouble, todo: "see to the other end: it is tried again with pauses, and nothing is lost meanwhile" }]))),
    section("Gateway", found.gateway ? gateway(found.gateway) : nothing("speedd has no gateway for clients: see [gateway] of its configuration.")),
  ];
}
const REFUSED = {
  gateway_handshakes_refused: "Requests refused: no such topic, no grant, no sound token",
  gateway_connections_refused: "Connections beyond the bound",
  gateway_connections_cut: "Connections cut: the client sent too much, or pinged and did not read",
  gateway_connections_deaf: "Connections cut: the client was not there, or did not read",
  gateway_connections_expired: "Connections ended with their token",
  gateway_messages_refused: "Messages answered with an error",
  gateway_messages_unopened: "Messages that no key of the gateway opened",
  gateway_acknowledgements_refused: "Acknowledgements of what was not delivered",
};
function gateway({ counted, now, perSecond }) {
  return [
    facts(["Clients", number(now.gateway_clients)], ["Connections", number(now.gateway_open_connections)],
      ["Published a second", rate(perSecond.gateway_messages_published)], ["Delivered a second", rate(perSecond.gateway_messages_delivered)],
      ["Let in so far", number(counted.gateway_connections ?? 0)], ["Published so far", number(counted.gateway_messages_published ?? 0)],
      ["Delivered so far", number(counted.gateway_messages_delivered ?? 0)]),
    table("Refused by the gateway", [
      column("Refused", ([, text]) => text),
      figure("A second", ([name]) => rate(perSecond[name])),
      figure("So far", ([name]) => number(counted[name] ?? 0)),
    ], Object.entries(REFUSED)),
  ];
}

async function doctor() {
  const found = await ask("doctor");
  const wrong = found.findings.filter((one) => one.state !== "ok"), fine = found.findings.filter((one) => one.state === "ok");
  return [
    h("h1", {}, "Doctor"),
    section("To do", wrong.length ? findings(wrong) : nothing("Nothing is wrong with the root and this machine.")),
    section("In order", table("In order", [column("Looked at", (one) => one.check), column("Found", (one) => one.found)], fine)),
  ];
}

async function topics(name) {
  const found = await ask("topics");
  return name === undefined ? allTopics(found) : topic(found.topics.find((one) => one.topic === name), name, found.topics);
}
function allTopics(found) {
  return [
    h("h1", {}, "Topics"),
    found.hosted ? null : nothing("speedd hosts no topics: see [topics] of its configuration."),
    found.topics.length ? table("Topics", [
      column("Topic", (one) => link(at("topics", one.topic), one.topic)),
      figure("Messages", (one) => number(one.end - one.first)), figure("Size", (one) => bytes(one.bytes), "wide"),
      figure("Subscriptions", (one) => number(one.subscriptions.length), "wide"),
      figure("Waiting", (one) => number(one.parent ? letters(one) : one.subscriptions.reduce((most, sub) => Math.max(most, sub.backlog), 0))),
      column("State", (one) => one.damaged.length ? state("broken", "damaged") : one.parent && letters(one) ? state("warning", "dead letters")
        : one.subscriptions.some(unread) ? state("warning", "nobody reads") : state("ok")),
    ], found.topics) : found.hosted ? nothing("No topics yet.") : null,
    Object.entries(found.broken).map(([check, why]) => findings([{ state: "broken", check, found: why, todo: "see `speed root doctor`" }])),
  ];
}
// Dead letters in a topic that were not published again: this subscription knows which were.
const REDRIVE = "redrive";
function letters(one) {
  const redriven = one.subscriptions.find((each) => each.subscription === REDRIVE);
  return redriven ? redriven.backlog : one.end - one.first;
}
function deadLetters(found) {
  const count = letters(found);
  return [
    h("p", {}, count ? `${number(count)} not published again. ` : "None waits. ", "They come from ", link(at("topics", found.parent), found.parent), "."),
    may.act && found.manage ? h("form", { class: "line", "data-act": "redrive", "data-topic": found.topic, "data-parent": found.parent, "aria-label": "Publish dead letters again" },
      h("button", { disabled: !count }, "Publish again"), h("output", {})) : null,
  ];
}
const unread = (one) => one.backlog > 0 && !one.consumers.length;
async function topic(found, name, every) {
  if (!found) throw new Refused(404, `There is no topic ${name}.`);
  const aside = every.filter((one) => one.parent === name);
  const read = found.consume ? await ask(`${at("topics", name)}`) : null;
  return [
    h("p", { class: "path" }, link("topics", "Topics"), " / "),
    h("h1", {}, name),
    facts(["Messages", number(found.end - found.first)], ["Size", bytes(found.bytes)], ["From offset", number(found.first)],
      ["To offset", number(found.end)], ["Producers", number(found.producers)]),
    found.damaged.length ? findings(found.damaged.map((one) => ({ state: "broken", check: one.file ?? "messages", found: one.why, todo: "restore it from a copy" }))) : null,
    found.parent ? section("Dead letters", deadLetters(found)) : null,
    aside.length ? section("Dead letters", table("Dead letters", [
      column("Topic", (one) => link(at("topics", one.topic), one.topic)), figure("Waiting", (one) => number(letters(one)))], aside)) : null,
    section("Subscriptions", found.subscriptions.length ? table("Subscriptions", [
      column("Subscription", (one) => one.subscription), column("Type", (one) => one.type, "wide"),
      figure("Waiting", (one) => number(one.backlog)), figure("In flight", (one) => number(one.in_flight), "wide"),
      figure("Dead", (one) => number(one.dead), "wide"), figure("Next", (one) => number(one.cursor), "wide"),
      column("Consumers", (one) => unread(one) ? state("warning", "none") : one.consumers.join(" ") || "none"),
    ], found.subscriptions) : nothing("None."),
    may.act && found.manage && found.subscriptions.length ? h("form", { class: "line", "data-act": "seek", "data-topic": name, "aria-label": "Move a subscription" },
      field("Subscription", h("select", { name: "subscription" }, found.subscriptions.map((one) => h("option", {}, one.subscription)))),
      field("To", h("input", { name: "to", required: true, value: "earliest", pattern: "earliest|latest|[0-9]{1,18}", title: "earliest, latest or an offset" })),
      h("button", {}, "Move"), h("output", {})) : null),
    section("Newest messages", read ? (read.messages.length ? table("Newest messages", [
      figure("Offset", (one) => number(one.offset)), column("When", (one) => when(one.at), "wide"),
      column("Publisher", (one) => one.publisher ?? "–"), column("Key", (one) => one.key ?? "–", "wide"),
      column("Payload", (one) => h("code", {}, one.damaged ?? JSON.stringify(one.payload))),
    ], [...read.messages].reverse()) : nothing("None.")) : nothing(`Messages are shown where ${may.name} may consume: grant it \`consume\` in this topic.`)),
  ];
}

const search = { subject: "", source: "", text: "", since: "3600" };
async function journal() {
  const found = await ask(`journal?${new URLSearchParams(search)}`);
  const spans = [["300", "5 minutes"], ["3600", "an hour"], ["86400", "a day"], ["604800", "a week"], ["999999999", "all"]];
  return [
    h("h1", {}, "Journal"),
    found.kept ? [
      h("form", { class: "line", "data-act": "search", role: "search", "aria-label": "Search the journal" },
        field("Subject", h("input", { name: "subject", value: search.subject, placeholder: "orders.*" })),
        field("Source", h("input", { name: "source", value: search.source, placeholder: "etl.*" })),
        field("Contains", h("input", { name: "text", value: search.text })),
        field("Of the last", h("select", { name: "since" }, spans.map(([value, text]) => h("option", { value, selected: value === search.since }, text)))),
        h("button", { class: "main" }, "Search")),
      h("p", { role: "status" }, `${found.records.length} records`, found.whole ? "." : "; not all were looked at: narrow the search.",
        found.records.length === 200 ? " Older ones are left out." : ""),
      found.damaged.length ? findings(found.damaged.map((why) => ({ state: "broken", check: "journal", found: why, todo: "see `speed journal verify`" }))) : null,
      found.records.length ? table("Records", [
        column("When", (one) => when(one.at)), column("Subject", (one) => one.subject),
        column("From", (one) => one.value?.caller ?? one.source), figure("Offset", (one) => number(one.offset), "wide"),
        column("What", (one) => one.kind === "calls" && one.value?.outcome ? `${one.value.outcome}, ${seconds(one.value.microseconds / 1e6)}` : h("code", {}, JSON.stringify(one.value))),
      ], found.records) : null,
    ] : nothing("speedd keeps no journal: see [journal] of its configuration."),
  ];
}

// --- trying a service: a form made from what it says that it takes ---

const field = (name, input, about) => h("label", {}, h("span", {}, name), input, about ? h("small", {}, about) : null);
async function attempt(name, service) {
  if (name === undefined) {
    const { nodes } = await ask("overview");
    return [h("h1", {}, "Try"), h("p", {}, "Which node offers the service?"),
      table("Nodes", [column("Node", (one) => link(at("try", one.name), one.name)), column("State", nodeState)], nodes.filter((one) => one.state !== "self"))];
  }
  const found = await ask(at("describe", name)), one = found.services.find((each) => each.name === service);
  return [
    h("p", { class: "path" }, link("try", "Try"), " / ", service === undefined ? null : [link(at("try", name), name), " / "]),
    h("h1", {}, service ?? name),
    service === undefined ? offered(found, name) : one ? form(one, name) : nothing(`${name} offers no such service to speedd.`),
  ];
}
function offered(found, name) {
  if (!found.services.length) return nothing(`${name} offers no service to ${may.name}: allow it there.`);
  return table("Services", [column("Service", (one) => link(at("try", name, one.name), one.name)),
    column("Takes and gives", (one) => code(one.signature), "wide"), column("About", (one) => one.summary || "–")], found.services);
}
const KINDS = { number: ["number", "any"], integer: ["number", "1"] };
function input(name, schema, required) {
  const own = { name, required, "data-type": typeof schema.type === "string" ? schema.type : "json" };
  if (Array.isArray(schema.enum)) return h("select", { ...own, "data-type": "json" }, schema.enum.map((value) => h("option", { value: JSON.stringify(value) }, JSON.stringify(value))));
  if (schema.type === "boolean") return h("select", { ...own, "data-type": "json" }, ["false", "true"].map((value) => h("option", {}, value)));
  if (KINDS[schema.type]) return h("input", { ...own, type: "number", step: KINDS[schema.type][1] });
  return schema.type === "string" ? h("input", own) : h("textarea", { ...own, "data-type": "json", placeholder: "JSON" });
}
function form(one, name) {
  const schema = one.parameters ?? {}, properties = Object.entries(schema.properties ?? {}), needed = schema.required ?? [];
  return [
    one.summary ? h("p", {}, one.summary) : null, h("p", {}, code(one.name + one.signature)),
    h("form", { "data-act": "call", "data-node": name, "data-service": one.name, "aria-label": `Call ${one.name}` },
      properties.map(([key, each]) => field(key, input(key, each ?? {}, needed.includes(key)),
        [needed.includes(key) ? "" : "optional ", each?.description ?? ""].join(""))),
      one.parameters ? null : field("Arguments", h("textarea", { name: "", "data-type": "json", placeholder: '{"name": "value"}' }), "An object of JSON."),
      h("div", {}, h("button", { class: "main", disabled: !may.act }, "Call"), may.act ? null : h("small", {}, " This console looks only: see `actions` of [console].")),
      h("output", {})),
  ];
}
function argumentsOf(form) {
  const values = {};
  for (const one of form.querySelectorAll("[data-type]")) {
    if (one.value === "") continue;
    const kind = one.dataset.type;
    const value = kind === "json" ? JSON.parse(one.value) : KINDS[kind] ? Number(one.value) : one.value;
    if (one.name === "") Object.assign(values, value); else values[one.name] = value;
  }
  return values;
}

const ACTS = {
  async call(form) {
    const { node: target, service } = form.dataset;
    const done = await ask("call", { node: target, service, arguments: argumentsOf(form) });
    return [h("p", {}, `Answered after ${seconds(done.seconds)}:`), h("pre", { tabindex: "0" }, JSON.stringify(done.result, null, 2))];
  },
  async seek(form) {
    const { subscription, to } = Object.fromEntries(new FormData(form));
    if (!confirm(`Move ${subscription} to ${to}? It is delivered messages again, or leaves some out.`)) return null;
    const done = await ask("seek", { topic: form.dataset.topic, subscription, to: /^[0-9]+$/.test(to) ? Number(to) : to });
    draw();
    return `Goes on at ${done.offset}.`;
  },
  async redrive(form) {
    const { topic: name, parent } = form.dataset;
    if (!confirm(`Publish the dead letters in ${name} again? Each subscription of ${parent} gets them.`)) return null;
    const done = await ask("redrive", { topic: name });
    draw();
    return `${number(done.messages)} published again.`;
  },
  async retry(form) {
    await ask("retry", { node: form.dataset.node, number: Number(form.dataset.number) });
    draw();
    return "It is handled again.";
  },
  async search(form) {
    Object.assign(search, Object.fromEntries(new FormData(form)));
    await draw();
  },
};
async function act(form) {
  const output = form.querySelector("output"), button = form.querySelector("button");
  const tellResult = (...children) => output && (output.replaceChildren(), fill(output, {}, children));
  button.disabled = true;
  try {
    tellResult(await ACTS[form.dataset.act](form));
  } catch (error) {
    tellResult(h("span", { class: "state broken" }, h("span", { "aria-hidden": "true" }, "✕"), ` ${error.message}`));
  } finally {
    button.disabled = false;
  }
}

// --- which view, and when it is drawn anew ---

const VIEWS = {
  overview: { title: "Overview", draw: overview, live: true },
  nodes: { draw: node, live: true },
  services: { title: "Services", draw: services, live: true },
  topics: { title: "Topics", draw: topics, live: true },
  bridges: { title: "Bridges, gateway", draw: bridges, live: true },
  journal: { title: "Journal", draw: journal },
  doctor: { title: "Doctor", draw: doctor },
  try: { title: "Try", draw: attempt },
};
let current = { name: "", drawing: false, again: false };

function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean);
  try {
    return VIEWS[name] ? [name, ...rest.map(decodeURIComponent)] : ["overview"];
  } catch { // an address that nobody made here
    return ["overview"];
  }
}

async function draw() {
  if (current.drawing) {
    current.again = true;
    return;
  }
  current.drawing = true;
  const where = location.hash, [name, ...rest] = place();
  try {
    const made = await VIEWS[name].draw(...rest);
    if (where === location.hash) show(made);
  } catch (error) {
    if (where === location.hash) failed(error);
  } finally {
    current.drawing = false;
    if (current.again || where !== location.hash) {
      current.again = false;
      draw();
    }
  }
}

function failed(error) {
  if (error.status === 401) {
    live.stop();
    show(h("div", { class: "gate" }, h("h1", {}, "This browser is not let in"),
      h("p", {}, "Run ", code("speedd console"), " on the machine of speedd, and open the address that it prints."),
      h("p", {}, "An address lets one browser in, and within ten minutes.")));
  } else if (error instanceof Refused) {
    show(h("h1", {}, error.status === 404 ? "Not there" : "No answer"), h("p", { role: "alert" }, error.message), h("p", {}, link("overview", "To the overview")));
  } else {
    tell("off", "speedd does not answer");
  }
}

function navigate() {
  const [name] = place(), shown = name === "nodes" ? "overview" : name;
  for (const one of document.querySelectorAll("#views a")) {
    if (one.hash === `#/${shown}`) one.setAttribute("aria-current", "page"); else one.removeAttribute("aria-current");
  }
  document.title = `${VIEWS[name].title ?? place()[1]} – SPEED console`;
  draw();
}

// --- news: a stream that says when speedd has looked, while somebody sees the page ---

const live = {
  stopped: false,
  aborting: null,
  stop() { this.stopped = true; this.aborting?.abort(); tell("off", "Not let in"); },
  pause() { this.aborting?.abort(); },
  async follow() {
    while (!this.stopped && !document.hidden) {
      this.aborting = new AbortController();
      let trouble = "Not connected";
      try {
        await this.read(await fetch("/api/events", { headers: secret(), signal: this.aborting.signal }));
      } catch (error) { // it is tried again
        if (error instanceof Refused) trouble = error.message;
      }
      if (this.stopped || document.hidden) return;
      tell("off", trouble);
      await new Promise((done) => setTimeout(done, 2000));
      await draw();
    }
  },
  async read(answer) {
    if (answer.status === 401) { await draw(); return; }
    if (answer.status === 503) throw new Refused(503, TOO_MANY);
    if (!answer.ok) throw new Error(answer.status);
    const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let one = await lines.read(); !one.done; one = await lines.read()) {
      tell("on", "Live");
      if (one.value.includes("event: look") && VIEWS[place()[0]].live) draw();
    }
  },
};
function tell(kind, text) {
  if (pulse.textContent !== text) pulse.textContent = text;
  pulse.className = kind;
}

// --- the page as a whole ---

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.querySelector("#theme");
  if (button) button.textContent = `Theme: ${theme}`;
}

function start() {
  const nav = document.querySelector("#views");
  const titled = Object.entries(VIEWS).filter(([, one]) => one.title);
  nav.append(h("ul", {}, titled.map(([name, one]) => h("li", {}, link(name, one.title)))));
  document.querySelector("#theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    store.set(THEME, next);
    setTheme(next);
  });
  addEventListener("hashchange", () => { navigate(); view.focus({ preventScroll: true }); scrollTo(0, 0); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) live.pause(); else { draw(); live.follow(); } });
  document.addEventListener("submit", (event) => { event.preventDefault(); act(event.target); });
  ask("overview").then(learn, () => null).then(() => { navigate(); live.follow(); });
}

setTheme(THEMES.includes(store.get(THEME)) ? store.get(THEME) : "system");
const { key } = document.documentElement.dataset;
if (key) { // the page that an address of `speedd console` leads to
  store.set(KEY, key);
  location.replace("/");
} else if (view) {
  start();
}
