// Sections that have every word; a word in a heading counts more than one in the text.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const scored = SECTIONS.map(([link, title, text]) => {
    const heading = title.toLowerCase(), all = text.toLowerCase();
    let score = 0;
    for (const word of words) {
      const times = all.split(word).length - 1;
      if (times === 0) return [0];
      score += Math.min(times, 5) + (heading.includes(word) ? 20 : 0);
    }
    const at = all.indexOf(words[0]);
    return [score, link, title, text.slice(Math.max(0, at - 40), at + 100)];
  });
  return scored.filter(([score]) => score > 0).sort((a, b) => b[0] - a[0]).slice(0, 20);
}

const field = document.getElementById("search"), found = document.getElementById("found");
function show() {
  found.replaceChildren(...find(field.value).map(([, link, title, excerpt]) => {
    const entry = document.createElement("a");
    entry.href = document.body.dataset.up + link;
    const heading = document.createElement("b"), text = document.createElement("span");
    heading.textContent = title;
    text.textContent = excerpt;
    entry.append(heading, text);
    return entry;
  }));
}
field.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
});
// A link can carry a question: index.html?q=deadlock.
field.value = new URLSearchParams(location.search).get("q") ?? "";
show();
