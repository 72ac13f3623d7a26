// What is wrong with how a page looks, as sentences: run in a browser by test_page_layout.py.
() => {
  const wrong = [];
  const seen = (item) => {
    const style = getComputedStyle(item);
    const box = item.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && style.visibility !== "hidden" && Number(style.opacity) > 0 &&
      (!item.checkVisibility || item.checkVisibility());
  };
  const words = (item) => item.textContent.trim().replace(/\s+/g, " ").slice(0, 40);
  const say = (text) => { if (wrong.length < 40) wrong.push(text); };

  if (document.documentElement.scrollWidth > innerWidth) {
    say(`the page scrolls sideways: ${document.documentElement.scrollWidth} of ${innerWidth} px`);
  }

  // Texts of drawings: inside their box, not over each other, and large enough.
  for (const around of document.querySelectorAll(".plot, .drawing")) {
    const frame = around.getBoundingClientRect();
    const texts = [...around.querySelectorAll("svg text")].filter((item) => words(item) && seen(item) && !item.closest(".modebar, .hoverlayer"));
    const boxes = texts.map((item) => item.getBoundingClientRect());
    texts.forEach((item, place) => {
      const box = boxes[place];
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        say(`outside its box: ${words(item)}`);
      }
      if (parseFloat(getComputedStyle(item).fontSize) < 12) say(`small: ${words(item)}`);
      for (let other = 0; other < place; other += 1) {
        const [a, b] = [box, boxes[other]];
        const [x, y] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
        if (x > 1 && y > 2) say(`overlap in ${around.id || around.parentElement.id}: ${words(item)} and ${words(texts[other])}`);
      }
    });
    if (around.querySelector("svg.axis") && around.querySelectorAll("svg.axis text").length < 2) say(`an axis without ticks in ${around.parentElement.id}`);
    const layout = around._fullLayout;
    for (const name of Object.keys(layout || {}).filter((key) => /^[xy]axis\d*$/.test(key))) {
      const axis = layout[name];
      if (!axis.visible || !axis.showticklabels) continue;
      const own = around.layout[name];
      const single = axis.type === "category" ? axis._categories.length < 2 : own.ticktext && own.tickvals.length < 2 && !own.title.text;
      const labels = [...around.querySelectorAll(`.${axis._id}tick text`)].filter((item) => words(item) && seen(item));
      if (labels.length < 2 && !single) say(`an axis without two ticks: ${around.parentElement.id || around.id} ${name}, ${labels.map(words)}`);
    }
  }

  // Texts of the page: inside their boxes, and large enough.
  const channel = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const parse = (text) => {
    const mixed = /^color\(srgb ([^)]*)\)$/.exec(text);
    const parts = (mixed ? mixed[1] : text).match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3).map((part) => (mixed ? part : part / 255)), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const luminance = (rgb) => { const [r, g, b] = rgb.map(channel); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (item) => {
    for (let at = item; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.alpha > 0.99) return colour.rgb;
    }
    return [1, 1, 1];
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const checked = new Set();
  while (walker.nextNode()) {
    const item = walker.currentNode.parentElement;
    if (!walker.currentNode.nodeValue.trim() || checked.has(item) || item.closest("script, style, noscript, title, option, .modebar, .hoverlayer, .barlayer") || !seen(item)) continue;
    checked.add(item);
    const style = getComputedStyle(item);
    const drawn = item instanceof SVGElement;
    const ratio = contrast(parse(drawn ? style.fill : style.color).rgb, behind(drawn ? item.closest(".plot, .drawing") : item));
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}: ${words(item)}`);
    if (parseFloat(style.fontSize) < 12) say(`small: ${words(item)}`);
    if (!drawn && style.overflowX === "visible" && item.scrollWidth > item.clientWidth + 1 && item.clientWidth) say(`text wider than its box: ${words(item)}`);
    if (!drawn && !item.closest(".wide, pre") && item.getBoundingClientRect().right > innerWidth + 1) say(`cut at the side: ${words(item)}`);
  }
  return wrong;
}
