import json
import os

SAVE = "adventure_save.json"

ROOMS = {
    "hall": {"text": "A dusty hall. Doors lead north and east.", "exits": {"north": "library", "east": "kitchen"}, "items": ["lamp"]},
    "library": {"text": "Shelves up to the ceiling.", "exits": {"south": "hall"}, "items": ["book"]},
    "kitchen": {"text": "It smells of old soup. There is a trapdoor.", "exits": {"west": "hall", "down": "cellar"}, "items": []},
    "cellar": {"text": "You found the treasure! The end.", "exits": {}, "items": [], "needs": "lamp"},
}


class Game:
    def __init__(self):
        self.room = "hall"
        self.bag = []
        self.items = {name: list(r["items"]) for name, r in ROOMS.items()}

    def look(self):
        print(ROOMS[self.room]["text"])
        if self.items[self.room]:
            print("You see:", ", ".join(self.items[self.room]))

    def do_go(self, where):
        target = ROOMS[self.room]["exits"].get(where)
        if not target:
            print("You can't go there.")
        elif ROOMS[target].get("needs") not in (None, *self.bag):
            print("It is too dark.")
        else:
            self.room = target
            self.look()

    def do_take(self, what):
        if what in self.items[self.room]:
            self.items[self.room].remove(what)
            self.bag.append(what)
            print("Taken.")
        else:
            print("There is no such thing.")

    def do_save(self, _=""):
        with open(SAVE, "w") as f:
            json.dump(vars(self), f)
        print("Saved.")

    def do_load(self, _=""):
        if os.path.exists(SAVE):
            with open(SAVE) as f:
                self.__dict__.update(json.load(f))
            self.look()

    def play(self):
        self.look()
        while self.room != "cellar":
            verb, _, arg = input("> ").strip().lower().partition(" ")
            if verb in ("quit", "q"):
                break
            action = getattr(self, f"do_{verb}", None)
            if action:
                action(arg)
            elif verb == "look":
                self.look()
            elif verb in ("i", "inventory"):
                print(self.bag or "Nothing.")
            else:
                print("I don't understand.")


if __name__ == "__main__":
    Game().play()
