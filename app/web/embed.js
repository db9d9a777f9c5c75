// Embeds the chat in a page of another site: a button, and a frame of this server. A classic script, see docs/EMBED.md.

/**
 * `token` gives the token of the page's user; without it `tokenUrl` is asked.
 * @typedef {object} EmbedOptions
 * @property {string} graph
 * @property {() => Promise<string>} [token]
 * @property {string} [tokenUrl]
 * @property {string} [title]
 * @property {string} [lang] of the title, and of the chat if it has this language; otherwise the chat has the visitor’s
 * @property {string} [position] `left` or `right`
 * @property {string} [scheme] `light`, `dark` or `auto`; by default what fits the page's own `surface`, if it sets one
 * @property {Record<string, string>} [theme]
 * @property {boolean} [open]
 */

(() => {
  const script = document.currentScript;
  if (!(script instanceof HTMLScriptElement)) throw new Error("Load embed.js with <script src>, and not as a module.");
  const BASE = new URL(".", script.src);
  /** What a page sets as `--runtally-accent` and so on, or as `theme`; the frame checks the values. */
  const THEMED = [
    ...["accent", "accent-strong", "accent-soft", "on-accent", "ground", "surface", "raised"],
    ...["line", "line-strong", "text", "muted", "radius", "font"],
  ];
  /** How long a frame that has loaded may take to report. */
  const PATIENCE_MS = 5000;
  /** What is said without the frame, which has all the other messages: title, loading, failed, again. */
  const WORDS = {
    en: ["Chat", "Loading…", "The chat cannot be reached, or is not open to this site.", "Try again"],
    de: [
      "Chat",
      "Wird geladen …",
      "Der Chat ist nicht erreichbar oder dieser Website nicht offen.",
      "Erneut versuchen",
    ],
    es: ["Chat", "Cargando…", "No se puede acceder al chat, o no está abierto a este sitio.", "Reintentar"],
    fr: ["Chat", "Chargement…", "Le chat est injoignable, ou n’est pas ouvert à ce site.", "Réessayer"],
    ja: ["チャット", "読み込んでいます…", "チャットに接続できないか、このサイトでは利用できません。", "再試行"],
    ar: ["الدردشة", "جارٍ التحميل…", "تعذّر الوصول إلى الدردشة، أو أنها غير متاحة لهذا الموقع.", "إعادة المحاولة"],
  };
  const STYLE = `
    :host { all: initial; color-scheme: light dark; }
    .launcher, .panel { position: fixed; z-index: 2147483000; bottom: 20px; right: 20px; box-sizing: border-box;
      box-shadow: 0 2px 6px rgb(0 0 0 / 20%), 0 8px 28px rgb(0 0 0 / 18%); }
    .left { right: auto; left: 20px; }
    .launcher, .again { padding: 12px 20px; border: 0; border-radius: 99px; cursor: pointer;
      background: var(--runtally-accent, #2f5d50); color: var(--runtally-on-accent, #fff);
      font: 600 16px/1.3 var(--runtally-font, system-ui, sans-serif); }
    .launcher:focus-visible, .again:focus-visible { outline: 3px solid var(--runtally-accent, #2f5d50); outline-offset: 3px; }
    .panel { bottom: 84px; width: 400px; height: min(660px, calc(100dvh - 104px)); overflow: hidden;
      border-radius: calc(var(--runtally-radius, 10px) * 1.4); background: var(--runtally-surface, Canvas); }
    .panel[hidden] { display: none; }
    iframe { position: absolute; inset: 0; width: 100%; height: 100%; border: 0; visibility: hidden; }
    .ready iframe { visibility: visible; }
    .status { display: grid; gap: 16px; align-content: center; justify-items: center; box-sizing: border-box;
      height: 100%; padding: 24px; text-align: center; color: var(--runtally-text, CanvasText);
      font: 16px/1.5 var(--runtally-font, system-ui, sans-serif); }
    .ready .status { display: none; }
    @media (max-width: 480px) {
      .panel { inset: 0; width: 100%; height: 100dvh; border-radius: 0; }
      .launcher[aria-expanded="true"] { visibility: hidden; }
    }
    @media (prefers-reduced-motion: no-preference) {
      .panel { animation: rise 160ms ease-out; }
      @keyframes rise { from { opacity: 0; transform: translateY(12px); } }
    }
  `;

  /** The chat of a page. */
  class Chat {
    /** @param {EmbedOptions} options */
    constructor(options) {
      if (!options.graph) throw new Error("Runtally.embed needs a graph, such as messages:assistant.");
      if (!options.token && !options.tokenUrl) throw new Error("Runtally.embed needs a token or a tokenUrl.");
      this.options = options;
      const wanted = [options.lang ?? "", ...navigator.languages].map((tag) => tag.split("-")[0].toLowerCase());
      this.language = wanted.find((each) => Object.hasOwn(WORDS, each)) ?? "en";
      this.words = WORDS[/** @type {keyof typeof WORDS} */ (this.language)];
      const title = options.title ?? this.words[0];
      const side = options.position === "left" ? "left" : "";
      const lang = options.lang ?? "";
      this.launcher = make("button", { type: "button", class: `launcher ${side}`, "aria-haspopup": "dialog", lang });
      this.launcher.append(title);
      this.launcher.onclick = () => (this.panel.hidden ? this.open() : this.close());
      this.status = make("div", { class: "status", role: "status", lang: this.language, dir: "auto" });
      this.frame = make("iframe", { title, lang, allow: "clipboard-write" });
      this.panel = make("div", { class: `panel ${side}`, role: "dialog", "aria-label": title, hidden: "" });
      this.panel.append(this.status, this.frame);
      this.panel.onkeydown = (event) => event.key === "Escape" && this.close();
      this.place = make("div", {});
      const shadow = this.place.attachShadow({ mode: "open" });
      const style = new CSSStyleSheet();
      style.replaceSync(STYLE);
      // Policies of sites may forbid <style>, but not this.
      shadow.adoptedStyleSheets = [style];
      shadow.append(this.panel, this.launcher);
      for (const [name, value] of Object.entries(options.theme ?? {}))
        this.place.style.setProperty(`--runtally-${name}`, value);
      this.frame.onload = () => {
        if (this.frame.src && !this.isReady) this.timer = setTimeout(() => this.fail(), PATIENCE_MS);
      };
      this.receive = this.receive.bind(this);
      addEventListener("message", this.receive);
      document.body.append(this.place);
      this.scheme = options.scheme ?? schemeOf(this.themed("surface"));
      // Also while the frame, which has its own colours, is being loaded.
      if (this.scheme !== "auto") this.place.style.colorScheme = this.scheme;
      this.show(false);
      if (options.open) this.open({ takesFocus: false });
    }

    /** Whether the frame has reported; until then it may still be an empty one of the page's own origin. */
    get isReady() {
      return this.panel.classList.contains("ready");
    }

    /** @param {boolean} isOpen */
    show(isOpen) {
      this.panel.hidden = !isOpen;
      this.launcher.setAttribute("aria-expanded", String(isOpen));
    }

    open({ takesFocus } = { takesFocus: true }) {
      if (!this.panel.hidden) return;
      this.show(true);
      // A chat that begins opened leaves the focus to the page.
      this.takesFocus = takesFocus;
      // Visitors who never open it load nothing.
      if (!this.frame.src) this.load();
      this.focus();
      emit("open");
    }

    close() {
      if (this.panel.hidden) return;
      this.show(false);
      this.launcher.focus();
      emit("close");
    }

    destroy() {
      clearTimeout(this.timer);
      removeEventListener("message", this.receive);
      this.place.remove();
    }

    load() {
      clearTimeout(this.timer);
      this.status.replaceChildren(this.words[1]);
      const url = new URL("embed", BASE);
      url.search = String(
        new URLSearchParams({ graph: this.options.graph, origin: location.origin, lang: this.language }),
      );
      this.frame.src = url.href;
    }

    focus() {
      if (!this.takesFocus) return;
      this.frame.focus();
      if (this.isReady) this.send({ runtally: "opened" });
    }

    fail() {
      const again = make("button", { type: "button", class: "again" });
      again.append(this.words[3]);
      again.onclick = () => this.load();
      this.status.replaceChildren(this.words[2], again);
      emit("error", { code: "unavailable" });
    }

    /** @param {MessageEvent} message */
    receive({ source, origin, data }) {
      if (source !== this.frame.contentWindow || origin !== BASE.origin) return;
      switch (data?.runtally) {
        case "ready":
          clearTimeout(this.timer);
          this.panel.classList.add("ready");
          this.send({ runtally: "settings", ...this.settings() });
          if (!this.panel.hidden) this.focus();
          break;
        case "token":
          this.giveToken();
          break;
        case "close":
          this.close();
          break;
        case "message":
        case "error":
          emit(data.runtally, data.detail);
      }
    }

    /** @param {string} name */
    themed(name) {
      return getComputedStyle(this.place).getPropertyValue(`--runtally-${name}`).trim();
    }

    settings() {
      const { title, lang } = this.options;
      const values = THEMED.map((name) => [name, this.themed(name)]);
      return { title, lang, scheme: this.scheme, theme: Object.fromEntries(values.filter(([, value]) => value)) };
    }

    async giveToken() {
      const { token = () => fetchToken(this.options.tokenUrl ?? "") } = this.options;
      try {
        const given = await token();
        if (typeof given !== "string") throw new TypeError("A token must be a string.");
        this.send({ runtally: "token", token: given });
      } catch (error) {
        console.error("Runtally: the site gives no token.", error);
        this.send({ runtally: "token", token: null });
      }
    }

    /** @param {Record<string, unknown>} message */
    send(message) {
      this.frame.contentWindow?.postMessage(message, BASE.origin);
    }
  }

  /** In which text can be read on this colour. @param {string} surface */
  function schemeOf(surface) {
    const pixel = new OffscreenCanvas(1, 1).getContext("2d");
    if (pixel === null || !CSS.supports("color", surface)) return "auto";
    pixel.fillStyle = surface;
    pixel.fillRect(0, 0, 1, 1);
    const [red = 0, green = 0, blue = 0] = pixel.getImageData(0, 0, 1, 1).data;
    return 0.3 * red + 0.6 * green + 0.1 * blue < 128 ? "dark" : "light";
  }

  /** @param {string} url */
  async function fetchToken(url) {
    const response = await fetch(url, { method: "POST" });
    if (!response.ok) throw new Error(`${url} answers with status ${response.status}.`);
    return (await response.json()).token;
  }

  /**
   * @template {keyof HTMLElementTagNameMap} Name
   * @param {Name} name
   * @param {Record<string, string>} attributes
   */
  function make(name, attributes) {
    const element = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    return element;
  }

  /** @param {string} type @param {unknown} [detail] */
  function emit(type, detail) {
    window.Runtally.dispatchEvent(new CustomEvent(type, { detail }));
  }

  /** @type {Chat | null} */
  let chat = null;
  window.Runtally = Object.assign(new EventTarget(), {
    embed(/** @type {EmbedOptions} */ options) {
      chat?.destroy();
      chat = new Chat(options);
    },
    open: () => chat?.open(),
    close: () => chat?.close(),
    destroy() {
      chat?.destroy();
      chat = null;
    },
  });
  const { graph, open, ...given } = script.dataset;
  if (graph) {
    const start = () => window.Runtally.embed({ graph, ...given, open: open !== undefined && open !== "false" });
    if (document.body) start();
    else addEventListener("DOMContentLoaded", start);
  }
})();
