"use strict";
// All of the page can be read without this. With it, lists follow what happens, the parts of a long text follow one
// another, and a yes waits until the end of the text was in sight for a moment.

const MOMENT_MS = 700;
const MAX_PARTS = 20;
const news = document.getElementById("news");

async function read(address) {
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(String(answer.status));
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

function replaced(id, from) {
  const now = document.getElementById(id);
  const then = from.getElementById(id);
  if (now && then) now.replaceWith(document.adoptNode(then));
}

// Lists that follow the state folder.
let busy = false;
async function follow() {
  const live = document.getElementById("live");
  if (busy) return;
  if (!live || live.contains(document.activeElement) || live.querySelector("input:checked")) {
    if (news) news.textContent = "Something changed. Reload the page to see it.";
    return;
  }
  busy = true;
  try {
    const page = await read(location.href);
    replaced("live", page);
    document.querySelector("header nav")?.replaceWith(document.adoptNode(page.querySelector("header nav")));
    if (news) news.textContent = "";
  } catch (why) {
    if (news) news.textContent = "This page cannot be read again: " + why.message;
  } finally {
    busy = false;
  }
}
if (window.EventSource && document.querySelector("header nav")) {
  const events = new EventSource("/events");
  events.addEventListener("changed", follow);
  addEventListener("pagehide", () => events.close());
}

// Parts of a long text.
let parts = 0;
function continueAtEnd() {
  const next = document.getElementById("next");
  if (!next || parts >= MAX_PARTS || !window.IntersectionObserver) return;
  const seen = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    try {
      const page = await read(next.href);
      document.getElementById("part").append(...document.adoptNode(page.getElementById("part")).childNodes);
      replaced("end", page);
      parts += 1;
      continueAtEnd();
      waitForEnd();
    } catch (why) {
      if (news) news.textContent = "The next part cannot be read: " + why.message;
    }
  });
  seen.observe(next);
}

// A yes, once the end was in sight.
function waitForEnd() {
  const yes = document.querySelector("#end button.yes");
  if (!yes || !window.IntersectionObserver) return;
  yes.disabled = true;
  let timer = 0;
  const seen = new IntersectionObserver((entries) => {
    clearTimeout(timer);
    if (!entries.some((entry) => entry.isIntersecting)) return;
    timer = setTimeout(() => {
      yes.disabled = false;
      seen.disconnect();
    }, MOMENT_MS);
  });
  seen.observe(yes);
}
continueAtEnd();
waitForEnd();
