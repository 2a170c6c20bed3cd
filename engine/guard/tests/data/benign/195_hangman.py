import random
import sys

WORDS = ["python", "keyboard", "mountain", "library", "elephant", "bicycle", "umbrella"]
STAGES = ["", "O", "O\n|", "O\n|\\", "O\n|\\/", "O\n|\\/\n/", "O\n|\\/\n/\\"]


def load_words(path):
    try:
        with open(path) as f:
            return [w.strip().lower() for w in f if w.strip().isalpha() and len(w.strip()) > 4]
    except FileNotFoundError:
        print(f"{path} not found, using the built in words")
        return WORDS


def play(word):
    guessed, wrong = set(), 0
    while wrong < len(STAGES) - 1:
        shown = " ".join(c if c in guessed else "_" for c in word)
        print(f"\n{STAGES[wrong]}\n{shown}   used: {' '.join(sorted(guessed))}")
        if "_" not in shown:
            print("You won!")
            return True
        letter = input("Letter: ").lower().strip()
        if len(letter) != 1 or not letter.isalpha():
            print("One letter please.")
        elif letter in guessed:
            print("You already tried that.")
        else:
            guessed.add(letter)
            if letter not in word:
                wrong += 1
    print(f"{STAGES[-1]}\nYou lost, the word was {word}.")
    return False


if __name__ == "__main__":
    words = load_words(sys.argv[1]) if len(sys.argv) > 1 else WORDS
    wins = games = 0
    while True:
        games += 1
        wins += play(random.choice(words))
        print(f"{wins}/{games} won")
        if input("Again? [y/n] ").lower() != "y":
            break
