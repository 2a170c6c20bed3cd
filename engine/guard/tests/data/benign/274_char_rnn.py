import argparse
import pickle

import torch
from torch import nn


class CharLSTM(nn.Module):
    def __init__(self, vocab, hidden=256, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, 64)
        self.lstm = nn.LSTM(64, hidden, layers, batch_first=True, dropout=0.2)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state=None):
        y, state = self.lstm(self.emb(x), state)
        return self.out(y), state


def batches(data, batch, seq):
    n = (len(data) - 1) // (batch * seq)
    x = data[: n * batch * seq].view(batch, -1)
    y = data[1 : n * batch * seq + 1].view(batch, -1)
    for i in range(0, x.size(1), seq):
        yield x[:, i : i + seq], y[:, i : i + seq]


@torch.no_grad()
def sample(model, stoi, itos, prompt, n, temp, device):
    model.eval()
    x = torch.tensor([[stoi[c] for c in prompt if c in stoi]], device=device)
    out, state = list(prompt), None
    for _ in range(n):
        logits, state = model(x, state)
        probs = torch.softmax(logits[0, -1] / temp, -1)
        x = torch.multinomial(probs, 1).view(1, 1)
        out.append(itos[x.item()])
    return "".join(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("text")
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--prompt", default="The ")
    ap.add_argument("--save", default="charlstm.pt")
    args = ap.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = open(args.text, encoding="utf-8").read()
    itos = dict(enumerate(sorted(set(text))))
    stoi = {c: i for i, c in itos.items()}
    with open("vocab.pkl", "wb") as f:
        pickle.dump((stoi, itos), f)
    data = torch.tensor([stoi[c] for c in text])
    model = CharLSTM(len(stoi)).to(device)
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    for epoch in range(args.epochs):
        model.train()
        state, losses = None, []
        for x, y in batches(data, 32, 100):
            x, y = x.to(device), y.to(device)
            if state is not None:
                state = tuple(s.detach() for s in state)
            logits, state = model(x, state)
            loss = nn.functional.cross_entropy(logits.reshape(-1, len(stoi)), y.reshape(-1))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.3f}")
        print(sample(model, stoi, itos, args.prompt, 200, 0.8, device))
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
