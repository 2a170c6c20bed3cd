import argparse

import joblib
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.metrics import classification_report, roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def build(numeric, categorical):
    pre = ColumnTransformer([
        ("num", Pipeline([("impute", SimpleImputer(strategy="median")), ("scale", StandardScaler())]), numeric),
        ("cat", Pipeline([("impute", SimpleImputer(strategy="most_frequent")), ("enc", OneHotEncoder(handle_unknown="ignore"))]), categorical),
    ])
    return Pipeline([("pre", pre), ("clf", RandomForestClassifier(class_weight="balanced", random_state=42))])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("data")
    ap.add_argument("--target", default="churned")
    ap.add_argument("--out", default="model.joblib")
    args = ap.parse_args()

    df = pd.read_csv(args.data).drop(columns=["customer_id"], errors="ignore")
    y = df.pop(args.target).astype(int)
    numeric = df.select_dtypes("number").columns.tolist()
    categorical = df.columns.difference(numeric).tolist()
    X_train, X_test, y_train, y_test = train_test_split(df, y, test_size=0.2, stratify=y, random_state=42)

    grid = GridSearchCV(
        build(numeric, categorical),
        {"clf__n_estimators": [200, 400], "clf__max_depth": [None, 10]},
        scoring="roc_auc", cv=5, n_jobs=-1, verbose=1,
    )
    grid.fit(X_train, y_train)
    print("best:", grid.best_params_)
    proba = grid.predict_proba(X_test)[:, 1]
    print(classification_report(y_test, proba > 0.5))
    print(f"ROC AUC {roc_auc_score(y_test, proba):.3f}")
    joblib.dump(grid.best_estimator_, args.out)


if __name__ == "__main__":
    main()
