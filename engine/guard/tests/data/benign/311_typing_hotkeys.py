"""Text expander. Type an abbreviation followed by a space, e.g. ';mail '."""
import json
from datetime import date
from pathlib import Path

from pynput import keyboard

CONFIG = Path.home() / ".snippets.json"
DEFAULT = {";mail": "me@example.org", ";sig": "Kind regards,\nMe", ";date": "{date}"}


class Expander:
    def __init__(self, snippets):
        self.snippets = snippets
        self.longest = max(map(len, snippets))
        self.buffer = ""
        self.typing = False
        self.controller = keyboard.Controller()

    def on_press(self, key):
        if self.typing:
            return
        if key == keyboard.Key.space:
            for abbr, text in self.snippets.items():
                if self.buffer.endswith(abbr):
                    self.expand(abbr, text)
                    break
            self.buffer = ""
        elif key == keyboard.Key.backspace:
            self.buffer = self.buffer[:-1]
        elif getattr(key, "char", None):
            # only the last few characters are needed for matching
            self.buffer = (self.buffer + key.char)[-self.longest:]
        else:
            self.buffer = ""

    def expand(self, abbr, text):
        self.typing = True
        for _ in range(len(abbr) + 1):
            self.controller.tap(keyboard.Key.backspace)
        self.controller.type(text.format(date=date.today().isoformat()))
        self.typing = False


if __name__ == "__main__":
    if not CONFIG.exists():
        CONFIG.write_text(json.dumps(DEFAULT, indent=2))
    expander = Expander(json.loads(CONFIG.read_text()))
    print("snippets:", ", ".join(expander.snippets))
    with keyboard.Listener(on_press=expander.on_press) as listener:
        listener.join()
