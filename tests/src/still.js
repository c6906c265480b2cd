// Nothing moves and no caret blinks from now on; what is on its way to its place is there.
if (!window.heldStill) {
  window.heldStill = new CSSStyleSheet();
  window.heldStill.replaceSync(`*, *::before, *::after {
    animation: none !important; transition: none !important;
    caret-color: transparent !important; scroll-behavior: auto !important; }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, window.heldStill];
}
