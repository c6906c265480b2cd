// Stops all motion and the blinking of the caret from now on. A motion that has begun jumps to its
// end.
if (!window.heldStill) {
  window.heldStill = new CSSStyleSheet();
  window.heldStill.replaceSync(`*, *::before, *::after {
    animation: none !important; transition: none !important;
    caret-color: transparent !important; scroll-behavior: auto !important; }`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, window.heldStill];
}
