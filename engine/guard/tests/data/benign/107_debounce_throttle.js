function debounce(fn, wait, { leading = false } = {}) {
  let timer = null;
  function debounced(...args) {
    const callNow = leading && timer === null;
    clearTimeout(timer);
    timer = setTimeout(() => {
      timer = null;
      if (!leading) fn.apply(this, args);
    }, wait);
    if (callNow) fn.apply(this, args);
  }
  debounced.cancel = () => {
    clearTimeout(timer);
    timer = null;
  };
  return debounced;
}

function throttle(fn, interval) {
  let last = 0;
  let timer = null;
  return function throttled(...args) {
    const remaining = interval - (Date.now() - last);
    if (remaining <= 0) {
      last = Date.now();
      fn.apply(this, args);
    } else if (!timer) {
      timer = setTimeout(() => {
        timer = null;
        last = Date.now();
        fn.apply(this, args);
      }, remaining);
    }
  };
}

// demo
const search = debounce((q) => console.log('search:', q), 200);
['h', 'he', 'hel', 'hello'].forEach((q, i) => setTimeout(() => search(q), i * 50));

const onScroll = throttle((y) => console.log('scroll:', y), 100);
let y = 0;
const id = setInterval(() => onScroll((y += 10)), 20);
setTimeout(() => clearInterval(id), 600);

module.exports = { debounce, throttle };
