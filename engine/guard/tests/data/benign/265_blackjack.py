import random
from dataclasses import dataclass, field

SUITS = "♠♥♦♣"
RANKS = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A"]


@dataclass
class Hand:
    cards: list = field(default_factory=list)

    @property
    def value(self):
        total = sum(11 if r == "A" else 10 if r in "JQK" else int(r) for r, _ in self.cards)
        aces = sum(r == "A" for r, _ in self.cards)
        while total > 21 and aces:
            total -= 10
            aces -= 1
        return total

    @property
    def blackjack(self):
        return len(self.cards) == 2 and self.value == 21

    def __str__(self):
        return " ".join(r + s for r, s in self.cards) + f" ({self.value})"


def new_deck():
    deck = [(r, s) for r in RANKS for s in SUITS] * 2
    random.shuffle(deck)
    return deck


def play_round(deck, bet):
    player, dealer = Hand(), Hand()
    for hand in (player, dealer) * 2:
        hand.cards.append(deck.pop())
    print(f"Dealer: {''.join(dealer.cards[0])} ??")
    while player.value < 21:
        print("You:   ", player)
        choice = input("[h]it or [s]tand? ").lower()
        if choice != "h":
            break
        player.cards.append(deck.pop())
    print("You:   ", player)
    if player.value > 21:
        print("Bust!")
        return -bet
    while dealer.value < 17:
        dealer.cards.append(deck.pop())
    print("Dealer:", dealer)
    if player.blackjack and not dealer.blackjack:
        return int(bet * 1.5)
    if dealer.value > 21 or player.value > dealer.value:
        return bet
    return 0 if player.value == dealer.value else -bet


def main():
    money, deck = 100, new_deck()
    while money > 0:
        if len(deck) < 30:
            deck = new_deck()
        raw = input(f"\nYou have {money}. Bet (q to quit): ")
        if raw == "q":
            break
        if not raw.isdigit() or not 0 < int(raw) <= money:
            print("Invalid bet")
            continue
        money += play_round(deck, int(raw))
    print(f"You leave with {money}.")


if __name__ == "__main__":
    main()
