// Numbers and elements.
/** With three digits after the point, or with two that count where these would all be zero. */
function fraction(value, digits = 3) {
  if (value === null || Number.isNaN(value)) return "–";
  return value !== 0 && Math.abs(value) < 0.5 * 10 ** -digits ? value.toExponential(1) : value.toFixed(digits);
}
const counted = (number) => number.toLocaleString("en-US");

/** 0.0001 as "1 in 10,000". */
function oneIn(share) {
  const number = 1 / share;
  return `1 in ${counted(number < 100 ? Math.round(number * 10) / 10 : Math.round(number))}`;
}

/** A rate with what it rests on, for a reader who points at it. */
function explained(rate) {
  const ends = rate.low === null ? "" : `, 95 %: ${fraction(rate.low)} to ${fraction(rate.high)}`;
  return `${counted(rate.accepted)} of ${counted(rate.count)}${ends}`;
}

/** An element with properties and children; text is never taken for markup. */
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role" || key === "colspan" || key === "scope") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const byId = (id) => document.getElementById(id);
const titleOf = (variant) => content.variants[variant].title;
const wordsOf = (variant) => (content.variants[variant].words === variant ? "" : ` · ${content.variants[variant].words}`);
const named = (variant) => titleOf(variant) + wordsOf(variant);
/** The same with the plain words apart, which a narrow screen leaves out. */
const namedParts = (variant) => [titleOf(variant), element("span", { className: "plain", textContent: wordsOf(variant) })];
const dark = () => document.documentElement.dataset.theme === "dark";
const colourOf = (variant) => content.variants[variant][dark() ? "dark" : "colour"];
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Fill a select; `chosen` is kept where it is still there. */
function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  select.value = options.some(([value]) => value === chosen) ? chosen : options.length ? options[0][0] : "";
}
