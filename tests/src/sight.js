// Finds what a person cannot see or reach on a page without pointing at anything. Defines `sight`;
// run once per page. Each finding is one line: which element, and what is wrong with it.
window.sight = (() => {
  const INTERACTIVE =
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], ' +
    '[role=link], [role=tab], [role=menuitem], [role=checkbox], [role=radio], [role=switch], ' +
    '[role=option], [role=slider], [tabindex]:not([tabindex="-1"])';
  // WCAG 2.2: target size (2.5.8), contrast of text (1.4.3), of large text and icons (1.4.11).
  const SMALLEST = 24, TEXT = 4.5, LARGE = 3, OPAQUE = 0.6;

  const style = (el, pseudo) => getComputedStyle(el, pseudo);

  function describe(el) {
    const text = (el.getAttribute('aria-label') || el.textContent || el.id || '').trim();
    const kinds = [...el.classList].map(name => '.' + name).join('');
    const within = el.parentElement?.closest('[class]');
    const inside = within ? ` in .${within.classList[0]}` : '';
    return `<${el.localName}${kinds}> “${text.slice(0, 40)}”${inside}`;
  }

  function* ancestors(el) {
    for (; el; el = el.parentElement) yield el;
  }

  // Whether the page means to show the element now: not in a closed menu or under a dialog.
  function meant(el) {
    const dialog = [...document.querySelectorAll('dialog:modal')].at(-1);
    if (dialog && !dialog.contains(el)) return false;
    for (const one of ancestors(el)) {
      if (one.inert || style(one).display === 'none') return false;
      const parent = one.parentElement;
      const closed = parent?.localName === 'details' && !parent.open;
      if (closed && one.localName !== 'summary') return false;
    }
    return !el.disabled && !el.matches(':disabled, [aria-disabled=true]');
  }

  // A link that skips to the content may be off the page until it has the focus. Its focus ring is
  // checked then.
  const isSkipLink = el => el.matches('a[href^="#"]') && el === document.querySelector('a');

  function targets() {
    return [...document.querySelectorAll(INTERACTIVE)].filter(el => meant(el) && !isSkipLink(el));
  }

  // A native field may be hidden behind its own label. Then people see and hit the label.
  function faces(el) {
    const own = el.getBoundingClientRect();
    const labels = [...(el.labels ?? [])];
    const clipped = style(el).clipPath !== 'none' || own.width <= 1 || own.height <= 1;
    return clipped && labels.length ? labels : [el];
  }

  function opacity(el) {
    let product = 1;
    for (const one of ancestors(el)) product *= Number(style(one).opacity);
    return product;
  }

  // ------------------------------------------------------------------------------------- colours

  const brush = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  brush.canvas.width = brush.canvas.height = 1;
  const known = new Map();

  function rgba(colour) {
    if (!known.has(colour)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  }

  const over = (top, under) => {
    const part = at => top[at] * top[3] + under[at] * (1 - top[3]);
    return [part(0), part(1), part(2), 1];
  };

  // The colour painted under an element's text; null if it is a picture.
  function ground(el) {
    const layers = [];
    for (const one of ancestors(el)) {
      const painted = style(one);
      // The colours of an image are unknown. But a narrow one is only a shadow at an edge.
      const narrow = painted.backgroundSize.split(',').every(size => /^\d+px /.test(size.trim()));
      if (painted.backgroundImage !== 'none' && !narrow) return null;
      const colour = rgba(painted.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reduceRight((under, top) => over(top, under), [255, 255, 255, 1]);
  }

  function luminance([r, g, b]) {
    const linear = value => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  }

  function contrast(one, other) {
    const [a, b] = [luminance(one), luminance(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }

  function weakContrast(el, see) {
    const found = [];
    const check = (one, colour, needed, what) => {
      const under = ground(one);
      if (!under) return;
      const ink = rgba(colour);
      const ratio = contrast(over([ink[0], ink[1], ink[2], ink[3] * see], under), under);
      if (ratio < needed) found.push(`${what} has a contrast of ${ratio.toFixed(1)}, not ${needed}`);
    };
    for (const one of [el, ...el.querySelectorAll('*')]) {
      const painted = style(one);
      if (painted.visibility !== 'visible' || !one.getClientRects().length) continue;
      if (one.closest('.visually-hidden')) continue;
      const texts = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
      if (one.localName === 'svg' && painted.stroke !== 'none') {
        check(one, painted.stroke, LARGE, 'an icon');
      } else if (texts || (one.matches('input, select, textarea') && one.value)) {
        const size = parseFloat(painted.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(painted.fontWeight) >= 700);
        check(one, painted.color, large ? LARGE : TEXT, 'its text');
      }
    }
    return found;
  }

  // --------------------------------------------------------------------------------- size, cover

  function box(el) {
    const rects = [el, ...(el.labels ?? [])].flatMap(one => [...one.getClientRects()]);
    const left = Math.min(...rects.map(r => r.left)), right = Math.max(...rects.map(r => r.right));
    const top = Math.min(...rects.map(r => r.top)), bottom = Math.max(...rects.map(r => r.bottom));
    return { left, right, top, bottom, width: right - left, height: bottom - top,
             x: (left + right) / 2, y: (top + bottom) / 2 };
  }

  const isSmall = area => area.width < SMALLEST - 0.01 || area.height < SMALLEST - 0.01;

  // A link in a sentence may be as low as its line.
  function isInSentence(el) {
    if (!style(el).display.startsWith('inline') || el.localName === 'button') return false;
    return [...el.parentElement.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  }

  // A small element needs a circle of 24 pixels without another element in it.
  function crowded(el, all) {
    const area = box(el);
    if (!isSmall(area) || isInSentence(el)) return null;
    const neighbour = all.find(other => {
      if (other === el || el.contains(other) || other.contains(el)) return false;
      const it = box(other);
      // An element that lies under all of it does not count, such as a row that is a link.
      if (it.left <= area.left && it.right >= area.right && it.top <= area.top &&
          it.bottom >= area.bottom) return false;
      const dx = Math.max(it.left - area.x, area.x - it.right, 0);
      const dy = Math.max(it.top - area.y, area.y - it.bottom, 0);
      const reach = isSmall(it) ? Math.hypot(it.x - area.x, it.y - area.y) / 2 : Math.hypot(dx, dy);
      return reach < SMALLEST / 2 - 0.01;
    });
    const size = `${area.width.toFixed(0)}×${area.height.toFixed(0)}`;
    return neighbour && `is ${size} and too near to ${describe(neighbour)}`;
  }

  function covered(el, face) {
    let wrong = null;
    // If a sticky column covers it, scrolling to the other end shows it.
    for (const inline of ['center', 'end', 'start']) {
      face.scrollIntoView({ block: 'center', inline, behavior: 'instant' });
      wrong = coveredHere(el, face);
      if (!wrong) break;
    }
    return wrong;
  }

  function coveredHere(el, face) {
    const rect = [...face.getClientRects()].find(r => r.width > 0 && r.height > 0);
    if (!rect) return 'has no size';
    const inside = ([x, y]) => x >= 0 && y >= 0 && x <= innerWidth && y <= innerHeight;
    const points = [[rect.left + rect.width / 2, rect.top + rect.height / 2]];
    // A large element may contain others that cover its middle. So its corners are tested, too.
    if (rect.width > 2 * SMALLEST && rect.height > 2 * SMALLEST) {
      for (const y of [rect.top + 6, rect.bottom - 6]) {
        points.push([rect.left + 6, y], [rect.right - 6, y]);
      }
    }
    if (!inside(points[0])) return 'cannot be scrolled into sight';
    const hits = points.filter(inside).map(([x, y]) => document.elementFromPoint(x, y));
    const isOurs = hit => hit && (face.contains(hit) || hit.closest('label')?.control === el);
    // An open menu may cover the page, because the user opened it.
    const isMenu = hit => hit?.closest('details[open] > :not(summary)');
    if (hits.some(isOurs) || isMenu(hits[0])) return null;
    return `is covered by ${hits[0] ? describe(hits[0]) : 'nothing'}`;
  }

  // Everything that is wrong with the visible elements while the pointer is elsewhere.
  function findings() {
    // The link that skips to the content lies over others while it has the focus, which the test
    // with the Tab key leaves on the first element.
    if (isSkipLink(document.activeElement)) document.activeElement.blur();
    const all = targets();
    const found = [];
    for (const el of all) {
      const say = text => text && found.push(`${describe(el)} ${text}`);
      for (const face of faces(el)) {
        const see = opacity(face);
        if (see < OPAQUE) say(`has an opacity of ${see.toFixed(2)}`);
        if (style(face).visibility !== 'visible') say('is not visible');
        say(covered(el, face));
        weakContrast(face, see).forEach(say);
      }
      say(crowded(el, all));
      if (el.tabIndex > 0) say('jumps the order of the Tab key');
    }
    scrollTo(0, 0);
    return [...new Set(found)];
  }

  // ------------------------------------------------------------------------------------ keyboard

  const reached = [];
  const unringed = new Set();

  // Whether there is an outline on it, on its ::before or ::after, on its label, or on one of the
  // two elements around it.
  function hasRing(el) {
    const near = [[el], [el, '::after'], [el, '::before']];
    for (const label of el.labels ?? []) near.push([label]);
    let up = el.parentElement;
    for (let n = 0; n < 2 && up; n += 1, up = up.parentElement) {
      if (up.matches(':focus-within')) near.push([up]);
    }
    return near.some(([one, pseudo]) => {
      const painted = style(one, pseudo);
      if (painted.outlineStyle === 'none' || parseFloat(painted.outlineWidth) < 1) return false;
      const inner = parseFloat(painted.outlineOffset) < 0;
      const under = ground((!inner && one.parentElement) || one) ?? [255, 255, 255, 1];
      return contrast(over(rgba(painted.outlineColor), under), under) >= LARGE;
    });
  }

  function watchFocus() {
    // Starts at the top of the page, wherever the focus was.
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute('tabindex');
    reached.length = 0;
    unringed.clear();
    const note = el => {
      const seen = reached.includes(el) && !unringed.has(el);
      reached.push(el);
      if (el.matches('main') || seen || hasRing(el)) unringed.delete(el);
      else unringed.add(el);
    };
    // A dialog gives the focus to its first control.
    if (document.activeElement !== document.body) note(document.activeElement);
    document.addEventListener('focusin', event => note(event.target));
  }

  // Native radio buttons and tabs are one stop; arrow keys go on from there.
  function isReached(el, set) {
    if (set.has(el)) return true;
    // A page that goes on by itself has put another element in the place of one that was reached.
    const gone = [...set].filter(other => !other.isConnected);
    if (gone.some(other => describe(other) === describe(el))) return true;
    if (el.type === 'radio') {
      return targets().some(other => other.name === el.name && set.has(other));
    }
    const list = el.closest(
      '[role=tablist], [role=radiogroup], [role=listbox], [role=toolbar], [role=group]');
    return Boolean(list) && el.tabIndex === -1 && [...set].some(other => list.contains(other));
  }

  // Elements that the Tab key skipped, and places where the focus was invisible or went backwards.
  function focusFindings() {
    const set = new Set(reached);
    const found = targets().filter(el => !isReached(el, set))
      .map(el => `${describe(el)} is not reached with the Tab key`);
    for (const el of unringed) found.push(`${describe(el)} has no focus ring to be seen`);
    const first = reached.find(el => reached.every(other => el === other ||
      el.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING));
    for (let at = 1; at < reached.length; at += 1) {
      const [before, now] = [reached[at - 1], reached[at]];
      // After the last element the focus goes to the first one again.
      if (!before.isConnected || !now.isConnected || now === first) continue;
      if (now.compareDocumentPosition(before) & Node.DOCUMENT_POSITION_FOLLOWING) {
        found.push(`${describe(now)} comes after ${describe(before)}, which stands behind it`);
      }
    }
    return [...new Set(found)];
  }

  // Whether the Tab key has been everywhere: the focus is back at the start, or has left the page.
  let away = 0;
  function isRound() {
    away = document.activeElement === document.body ? away + 1 : 0;
    return reached.length > 1 &&
      (away > 1 || reached.indexOf(reached.at(-1)) < reached.length - 1);
  }

  return { findings, watchFocus, focusFindings, isRound, count: () => targets().length };
})();
