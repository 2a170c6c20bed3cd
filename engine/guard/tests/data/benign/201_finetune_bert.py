import argparse

import evaluate
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="distilbert-base-uncased")
    p.add_argument("--dataset", default="imdb")
    p.add_argument("--out", default="sentiment-model")
    p.add_argument("--train-size", type=int, default=5000)
    args = p.parse_args()

    ds = load_dataset(args.dataset)
    tok = AutoTokenizer.from_pretrained(args.model)

    def encode(batch):
        return tok(batch["text"], truncation=True, max_length=256)

    train = ds["train"].shuffle(seed=1).select(range(args.train_size)).map(encode, batched=True)
    test = ds["test"].shuffle(seed=1).select(range(1000)).map(encode, batched=True)

    model = AutoModelForSequenceClassification.from_pretrained(
        args.model, num_labels=2, id2label={0: "negative", 1: "positive"}
    )
    accuracy = evaluate.load("accuracy")

    def metrics(pred):
        logits, labels = pred
        return accuracy.compute(predictions=np.argmax(logits, axis=-1), references=labels)

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.out,
            learning_rate=2e-5,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=32,
            num_train_epochs=3,
            evaluation_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            report_to="none",
        ),
        train_dataset=train,
        eval_dataset=test,
        data_collator=DataCollatorWithPadding(tok),
        compute_metrics=metrics,
        callbacks=[EarlyStoppingCallback(1)],
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(args.out)
    tok.save_pretrained(args.out)


if __name__ == "__main__":
    main()
